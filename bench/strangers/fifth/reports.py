"""Images with reports: German letters beside two views, and a Spanish workbook of CT reports."""

from bench.strangers import draw
from bench.strangers.build import Families
from tests.families.base import Build

FAMILIES = Families()
family = FAMILIES.family

_GERMAN = {"heart": "Herz deutlich linksverbreitert.", "effusion": "Beidseits Ergüsse, den Sinus verlegend.",
           "nodule": "Rundherd im Oberfeld, ca. 12 mm groß.", "opacity": "Flächige Verschattung im Mittelfeld."}  # fmt: skip


@family(
    "german_letters", "report_generation", 2,
    "Write the findings (Befund) for a chest radiograph in two views.",
    notes="A folder an examination: pa and lateral JPEG and a Latin-1 letter with headings; some are not yet reported.",
)  # fmt: skip
def german(b: Build) -> None:
    for n in range(34):
        case, person = f"{4711 + 17 * n:07d}", 88200 + n - (n % 8 == 3)
        signs = [sign for i, sign in enumerate(_GERMAN) if (n * 3 + i * 5) % 7 < 2]
        views = [
            b.picture(f"Röntgen_2022/{case}/{case}_{view}.jpg", draw.u8(draw.chest(b.rng, tuple(signs), side=view == "lat")), quality=92)
            for view in ("pa", "lat")
        ]
        if n % 11 == 6:
            b.truth["left_out"] += views
            continue
        if n % 5 == 2:
            signs = signs[::-1]
        found = " ".join([_GERMAN[s] for s in signs] or ["Herz normal groß, keine Ergüsse, keine Infiltrate."])
        found += b.pick(" Kein Pneumothorax.", " Mediastinum mittelständig.", "")
        letter = (f"Klinik für Radiologie\r\nFall-Nr.: {case}\r\nPat.-ID: {person}\r\n\r\nRöntgen Thorax in 2 Ebenen vom {n % 27 + 1:02d}.03.2022\r\n\r\n"
                  f"Klinische Angaben:\r\n{b.pick('Dyspnoe.', 'Husten seit 2 Wochen.', 'Präoperativ.')}\r\n\r\nFragestellung:\r\nInfiltrat? Erguss? Stauung?\r\n\r\n"
                  f"Befund:\r\n{found}\r\n\r\nBeurteilung:\r\n{'Pathologischer Befund, s.o.' if signs else 'Altersentsprechender Normalbefund.'}\r\n\r\n"
                  "Mit freundlichen kollegialen Grüßen\r\nDr. med. A. Muster\r\n")  # fmt: skip
        b.text(f"Röntgen_2022/{case}/{case}_befund.txt", letter, "latin-1")
        b.case(views, patient=str(person), text=found, views=2)
    b.text("Röntgen_2022/LIESMICH.txt", "Export vom 02.05.2022. Ein Ordner je Untersuchung. Offene Befunde fehlen.\r\n", "latin-1")
    b.clutter("windows", under="Röntgen_2022")


@family(
    "spanish_workbook", "report_generation", 3,
    "Generar los hallazgos del informe a partir de la TC de tórax.",
    notes="NIfTI named as in the workbook, without suffix; title rows, second sheet of codes; rows 'No valorable' do not count.",
)  # fmt: skip
def spanish(b: Build) -> None:
    rows = []
    for n in range(32):
        sick, person = n % 2 == 0, f"NHC{30512 + 3 * (n - (n % 7 == 5))}"
        name = f"TC_2023{n % 12 + 1:02d}{n % 27 + 1:02d}_{n + 1:04d}"
        path = b.nifti(f"Estudios/{name}.nii.gz", draw.lung_ct(b.rng, sick, (40, 36, 8)))
        bad = n % 10 == 7
        found = ("Opacidades en vidrio deslustrado bilaterales, de predominio " + b.pick("basal.", "periférico.")) if sick else "Parénquima pulmonar sin alteraciones."
        found += b.pick(" No se observa derrame pleural.", " Corazón de tamaño normal.", " Sin adenopatías significativas.")
        if bad:
            found = "Estudio no valorable por artefactos de movimiento."
            b.truth["left_out"].append(path)
        else:
            b.case(path, patient=person, text=found)
        rows.append([n + 1, person, f"{n % 27 + 1:02d}/{n % 12 + 1:02d}/2023", name, "No valorable" if bad else "Validado",
                     b.pick("Disnea", "Fiebre y tos", "Control"), found, None if bad else "Neumonía" if sick else "Normal"])  # fmt: skip
    b.xlsx("informes_TC_2023.xlsx", {
        "Informes": [["HOSPITAL GENERAL - SERVICIO DE RADIODIAGNÓSTICO", *[None] * 7], [None] * 8,
                     ["Nº", "Historia", "Fecha", "Estudio", "Estado", "Motivo", "Hallazgos", "Conclusión"], *rows],
        "Códigos": [["Estado", "Significado"], ["Validado", "Informe firmado"], ["No valorable", "Excluir del análisis"]],
    })  # fmt: skip
    b.text("leeme.txt", "Los estudios 'No valorable' no deben usarse.\n")
    b.clutter("mac", under="Estudios")
