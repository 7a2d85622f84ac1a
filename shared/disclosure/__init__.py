"""What a language model outside of the hospital is told (`Endpoint.inside` of the catalogue says which are inside).

Nothing passes because nobody knew it for a name: a word passes where it is known to say nothing of a person, and all
else becomes a surrogate of the same form, which the model's calls are freed of before they are recorded and made. So
no index of the data is needed, and what nobody looked at is hidden, too. Why a word may pass (`judge`):

- It is ours. Identifiers of our programs, names of Python and of files, and terms of radiology pass anywhere. A
  common word passes beside a word that follows it in a text of ours as well: `image files`, not `grace young`; the
  most frequent (`of`, `with`) pass in lower case by themselves. What is read below /m3 and /templates is ours as a
  whole.
- It is schema (`public`): headers, arrays, classes and splits that the profile found, where five files have the
  value, no header or form speaks of people, and patients are told apart by something else. So a value counts by where
  it stands.
- The endpoint said it itself: its own variables come back to it. What it knows by surrogate is kept with the turn
  (`Turn.hidden`), so that it is told what it said as it said it, and a dialogue's beginning stays as it was.
- A number of three digits at most passes anywhere, one of four where it stands by itself; in what a role is told first
  any that programs of ours measured, which stands in the brief as a number and in no text. Longer ones, and groups as
  `219-09-9999` or `943 476 5919`, are replaced by as many digits, dates move by as many days. In a line of the model's
  code a number beside a division is its own.
- Against all of that: a sentence that is not ours is hidden whole (reports), and a capitalised word beside a hidden
  one (`Mark Quackenbush`) is, whatever else it means; four letters in a row are a word. Splits of names over paths,
  case and escapes change nothing.

Behind the lock there are no raw data. What trainings print is told as it is but for dates, UIDs and what was hidden
before, whole, cut or as a part: of the brief, and of all that persons and the Task Manager wrote for any role, as files
of the workspace may repeat it. Where reports are the targets, as above. Where a card is read, and in what a role is
told first behind the lock, common words (ours, those of Python's manual and library) pass in lower case by themselves;
so they do as ordered in the request, the plan, a card or the notes of a module.

Limits. What hides in words or numbers that pass cannot be seen: a script that a hostile model writes can spell a name
in counts. Years, ages and patients' numbers of three digits pass, as do names that are terms (`case`, `field`) in lower
case or alone, and numbers written with commas, or of nine digits with spaces in a sentence (`601 234 567`). Of a class
that five files have the name passes, were it a person's. Pictures are refused as a whole where the operator does not
allow them (`Endpoint.pixels`); what a picture shows nobody judges. Surrogates are made with a secret of the run, which
never leaves (`bus.secret`); what left is on record by hash and counts, and made again from the transcript (`again`).
"""
