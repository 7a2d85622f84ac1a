"""Values of cases: from fields, tables, DICOM headers or constants (`shared.contracts.rules.Source`)."""

import re
from collections import defaultdict
from collections.abc import Collection, Iterator, Sequence
from pathlib import Path

from shared.contracts.rules import Rules
from shared.contracts.values import Source, Table
from shared.dataset.files.listing import Listing
from shared.dataset.files.patterns import Compiled
from shared.dataset.files.series import headers, unreadable
from shared.dataset.rules.arrays import Values, array_values
from shared.dataset.rules.by_headers import HEADER, checked
from shared.dataset.rules.by_names import columns_of, rows_between, rows_told
from shared.dataset.rules.counting import COLUMN, Row, chosen, column_of, counting, keys_of
from shared.dataset.rules.found import Account, Found, RulesError
from shared.dataset.rules.gather import compiled, fields_of, same_fields, zeros_apart
from shared.dataset.rules.reasons import UNREAD
from shared.dataset.tables.cells import Table as Rows
from shared.dataset.tables.cells import TableError, cell, comparable, nearest, readable
from shared.dataset.tables.forms import base, same
from shared.dataset.tables.keys import FILE_NAMES, Matching, match, match_values
from shared.dataset.tables.tables import read_record, read_table, sheets

BY_BYTES = "name and bytes"
"""What a key names: `IMG_0001.jpg 17946`."""
_LONGEST = 20_000
"""Characters that `part` looks at."""


class Sources:
    """Values of the cases of one resolution; tables and headers are read once."""

    def __init__(self, rules: Rules, root: Path, listing: Listing, found: Sequence[Found], account: Account) -> None:
        self.rules, self.root, self.listing, self.found, self.account = rules, root, listing, found, account
        self._tables: dict[str, _Joined] = {}
        self._values: dict[str, Values] = {}
        self._opening: list[str] = []

    def of(self, source: Source) -> Values:
        """Values of each case. Raises RulesError for a field, table, column or header that there is not."""
        asked = source.model_dump_json()
        if asked not in self._values:
            values = self._part(source, self._read(source))
            if source.prefix:
                values = [tuple(source.prefix + text for text in some) for some in values]
            if source.otherwise is not None:
                values = [
                    first if any(map(readable, first)) else other
                    for first, other in zip(values, self.of(source.otherwise), strict=True)
                ]
            if source.called:
                called = {comparable(text): name for text, name in source.called.items()}
                values = [tuple(called.get(comparable(text), text) for text in some) for some in values]
            self._values[asked] = values
        return self._values[asked]

    def rows(self, table: str) -> list[list[Row]]:
        """Rows of a table for each case. Raises RulesError."""
        return self._table(table).rows

    def opened(self, index: int) -> dict[tuple[str, str], str]:
        """(table, column) -> value in a case's first row, of the tables that were needed so far."""
        first = {name: joined.rows[index][0] for name, joined in self._tables.items() if joined.rows[index]}
        return {(name, column): value for name, row in first.items() for column, value in row.items()}

    def column(self, table: str, name: str) -> str:
        """A column as the table calls it. Raises RulesError with those that there are."""
        return column_of(table, self._table(table).table, name)

    def in_words(self, source: Source) -> str:
        """Where values come from, for a person."""
        return ", else ".join(map(self._in_words, source.chain()))

    def _in_words(self, source: Source) -> str:
        if source.table is not None:
            return f"column {source.column!r} of {self.rules.tables[source.table].file}"
        if source.field is not None:
            woven = source.field if "{" in source.field else f"{{{source.field}}}"
            return f"the part {woven} of the files' paths"
        if source.array is not None:
            return f"the array {source.array!r} of {source.file or 'the same files'}"
        if source.header is not None:
            return f"{source.header} of the DICOM headers"
        return f"the same for all: {source.value}"

    def _read(self, source: Source) -> Values:
        if source.value is not None:
            return [(source.value,)] * len(self.found)
        if source.field is not None:
            return self._fields(source.field)
        if source.header is not None:
            return self._headers(source.header)
        if source.array is not None:
            return array_values(source, self.root, self.listing, self.found, self.account)
        if source.table is None or source.column is None:
            raise RulesError("a source names neither field, column, header, array nor value")
        rows = self.rows(source.table)
        columns = self.columns(source.table, source.column)
        if source.agree:
            return self._agreed(rows, [columns, *(self.columns(source.table, one) for one in source.agree)])
        return [
            tuple(dict.fromkeys(row[column] for row in some if column and row.get(column)))
            for some, column in zip(rows, columns, strict=True)
        ]

    def _agreed(self, rows: Sequence[list[Row]], columns: Sequence[Sequence[str | None]]) -> Values:
        """Of each case what all columns say, in the words of the first; nothing where they differ or one is empty."""
        called = {
            comparable(text): name for text, name in (self.rules.label.classes if self.rules.label else {}).items()
        }
        values: Values = []
        for some, own in zip(rows, zip(*columns, strict=True), strict=True):
            said = [row.get(column or "", "") for row in some for column in own]
            meant = {called.get(comparable(text), comparable(text)) for text in said}
            values.append((said[0],) if len(meant) == 1 and all(map(readable, said)) else ())
        return values

    def _fields(self, text: str) -> Values:
        """Of each case the field, or several as they are woven in `text`."""
        there = fields_of(self.found)
        woven = text if "{" in text else f"{{{text}}}"
        names = COLUMN.findall(woven)
        for name in names if self.found else ():
            if name not in there:
                raise RulesError(f"no case has one value of the field {name!r}{nearest(name, there)}")
        each = [case.fields for case in self.found]
        return [(woven.format_map(fields),) if fields.keys() >= {*names} else () for fields in each]

    def columns(self, name: str, column: str) -> Sequence[str | None]:
        """The column of each case, in whose name fields may stand. Raises RulesError."""
        if not COLUMN.search(column):
            return [self.column(name, column)] * len(self.found)
        return columns_of(column, self.found, self._table(name).table, self.rules.tables[name].called)

    def _headers(self, keyword: str) -> Values:
        read = headers(self.root, [case.files[0] for case in self.found], (checked(keyword),))
        texts = [cell(read[case.files[0]].get(keyword, "")) for case in self.found]
        for case, text in zip(self.found, texts, strict=True):
            if not text and unreadable(self.root, case.files[0]):
                self.account.drop(UNREAD, case.key)
        return [(text,) if text else () for text in texts]

    def _part(self, source: Source, values: Values) -> Values:
        if source.part is None:
            return values
        try:
            pattern = re.compile(source.part)
        except re.error as error:
            raise RulesError(f"part {source.part!r} is no regular expression: {error}") from None
        if pattern.groups != 1:
            raise RulesError(f"part {source.part!r} has {pattern.groups} groups; one ( ) takes the part that counts")
        taken: Values = []
        for several in values:
            hits = [found[1] for text in several if (found := pattern.search(text[:_LONGEST]))]
            taken.append(tuple(dict.fromkeys(hit for hit in hits if hit)))
        return taken

    def _table(self, name: str) -> "_Joined":
        if name in self._opening:
            raise RulesError(
                f"the tables {', '.join(self._opening)} name each other in a circle; give one a key of files"
            )
        if name not in self._tables:
            self._opening.append(name)
            self._tables[name] = self._open(name, self.rules.tables[name])
            self._opening.pop()
        return self._tables[name]

    def _open(self, name: str, table: Table) -> "_Joined":
        pattern = compiled([table.file], f"tables {name}")[0]
        files = self._files(name, pattern)
        if table.key is None:
            if not pattern.fields:
                raise RulesError(f"table {name!r} needs `key`, the column that names the case, or a field in `file`")
            return self._by_fields(name, pattern, files)
        rows = counting(name, table, self._all_rows(name, table, pattern, files))
        found = _Joined(rows, [[] for _ in self.found])
        keys = keys_of(name, table.key, rows)
        shared = [field for field in pattern.fields if field in fields_of(self.found)]
        groups: dict[tuple[str, ...], list[tuple[str, Row]]] = defaultdict(list)
        for key, row in zip(keys, rows.rows, strict=True):
            groups[same_fields(row, shared)].append((key, row))
        members: dict[tuple[str, ...], list[int]] = defaultdict(list)
        for index, case in enumerate(self.found):
            if all(field in case.fields for field in shared):
                members[same_fields(case.fields, shared)].append(index)
        for values, some in groups.items():
            self._join(name, table, some, members.get(values, []), found)
        for column, field in table.rows.items():
            found.rows = rows_told(found.rows, self.found, column_of(name, rows, column), field, table.called, rows)
        for field, (first, last) in table.between.items():
            ends = column_of(name, rows, first), column_of(name, rows, last)
            found.rows = rows_between(found.rows, self.found, field, ends)
        found.rows = chosen(name, table, rows, found.rows)
        return found

    def _join(
        self, name: str, table: Table, rows: Sequence[tuple[str, Row]], members: Sequence[int], found: "_Joined"
    ) -> None:
        keys = [text for text, _ in rows]
        matching = self._matching(name, table.names, keys, members)
        for text, row in rows:
            for place in matching.cases.get(text, ()):
                found.rows[members[place]].append(row)
        if table.rows and (matching.ambiguous or matching.unknown):
            self._join_apart(name, table, rows, members, matching, found)
        file, key = table.file, table.key
        unnamed = sum(not text for text in keys)
        if unnamed:
            self.account.leave(f"row of {file} without a key in {key!r}: fill it in", *[f"{file}: ''"] * unnamed)
        gone = self._of_excluded(matching)  # of which the images are accounted for
        if left := [text for text in matching.unknown if text not in gone]:
            self.account.leave(f"row of {file} whose {key!r} names no image: add the image, or nothing to do", *left)
            if matching.unnamed:
                self.account.unnamed[f"{name} (by {matching.names})"] = matching.unnamed
        for text, fits in list(matching.ambiguous.items())[:5]:
            self.account.conflicts.append(f"{key} {text!r} of {file} fits several: {', '.join(fits)}; it is not used")
        if matching.ambiguous:
            reason = f"row of {file} whose {key!r} fits several images: set `names` or `rows`, or weave the key"
            self.account.leave(reason, *matching.ambiguous)

    def _matching(self, name: str, names: str, keys: Sequence[str], members: Sequence[int]) -> Matching:
        """Which of the cases `members` each key names, by their places in it."""
        other, _, column = names.partition(".")
        if names == BY_BYTES:
            files = [self.found[index].files[0] for index in members]
            sizes = [self.listing.sizes[at] if (at := self.listing.place(file)) is not None else 0 for file in files]
            return match_values(keys, [(f"{base(f)} {size}",) for f, size in zip(files, sizes, strict=True)], names)
        if other in self.rules.tables or names.startswith(HEADER):
            source = Source(table=other, column=column) if other in self.rules.tables else Source(header=column)
            values = self.of(source)
            return match_values(keys, [values[index] for index in members], names)
        try:
            return match(keys, [self.found[index].named for index in members], names)
        except ValueError as error:
            raise RulesError(f"table {name!r}: {error}") from None

    def _join_apart(
        self,
        name: str,
        table: Table,
        rows: Sequence[tuple[str, Row]],
        members: Sequence[int],
        matching: Matching,
        found: "_Joined",
    ) -> None:
        """Join rows whose key names nothing or fits several cases, by those cases alone of which `rows` of the table
        say the same: a number that two machines count with. Takes their keys out of what is ambiguous or unknown."""
        columns = {column_of(name, Rows(tuple(rows[0][1]), []), column): field for column, field in table.rows.items()}
        unsettled = {*matching.ambiguous, *matching.unknown}
        of_rows: dict[tuple[str, ...], list[tuple[str, Row]]] = defaultdict(list)
        for text, row in rows:
            of_rows[tuple(same(table.called.get(row[one], row[one])) for one in columns)].append((text, row))
        of_cases: dict[tuple[str, ...], list[int]] = defaultdict(list)
        for index in members:
            fields = self.found[index].fields
            of_cases[tuple(same(fields.get(field, "")) for field in columns.values())].append(index)
        settled: set[str] = set()
        for said, some in of_rows.items():
            among = of_cases.get(said, [])
            if not among or unsettled.isdisjoint(text for text, _ in some):
                continue
            again = self._matching(name, matching.names, [text for text, _ in some], among)
            for text, row in some:
                if text in unsettled:
                    places = again.cases.get(text, ())
                    settled |= {text} if places else set()
                    for place in places:
                        found.rows[among[place]].append(row)
        if settled:
            matching.ambiguous = {text: fits for text, fits in matching.ambiguous.items() if text not in settled}
            matching.unknown = [text for text in matching.unknown if text not in settled]
            matching.unnamed = ()

    def _of_excluded(self, matching: Matching) -> Collection[str]:
        """Of the keys that name no case those that name an image which the rules exclude."""
        called = self.account.excluded
        if matching.names not in FILE_NAMES:
            needed = {*(COLUMN.findall(matching.names) or (matching.names,))}
            called = [one for one in called if needed <= one.fields.keys()]
        return match(matching.unknown, called, matching.names).cases.keys() if called and matching.unknown else ()

    def _files(self, name: str, pattern: Compiled) -> list[str]:
        files = [file for file in self.listing.files if pattern.match(file) is not None]
        if not files:
            ends = pattern.pattern.rpartition(".")[2].lower()
            alike = [file for file in self.listing.files if file.lower().endswith("." + ends)][:2000]
            raise RulesError(f"table {name!r}: there is no file {pattern.pattern!r}{nearest(pattern.pattern, alike)}")
        return files

    def _all_rows(self, name: str, table: Table, pattern: Compiled, files: Sequence[str]) -> Rows:
        """The rows of all files, each with the fields of its file as further columns."""
        columns: dict[str, None] = {}
        rows: list[Row] = []
        parts = list(self._parts(name, table, pattern, files))
        for file, sheet, fields in parts:
            try:
                read = read_table(self.root / file, sheet, table.each)
            except TableError as error:
                if len(parts) == 1:
                    raise RulesError(f"table {name!r}: {error}") from None
                self.account.leave("table that cannot be read: repair it, or convert it to CSV", f"{file}: {error}")
                continue
            columns.update(dict.fromkeys((*read.columns, *fields)))
            rows += [{**row, **fields} for row in read.rows] if fields else read.rows
        if len(parts) == 1 and not any(name not in row for row in rows[:1] for name in columns):
            return Rows(tuple(columns), rows)
        return Rows(tuple(columns), [{column: row.get(column, "") for column in columns} for row in rows])

    def _parts(
        self, name: str, table: Table, pattern: Compiled, files: Sequence[str]
    ) -> Iterator[tuple[str, str | None, dict[str, str]]]:
        """File, sheet and fields of each part of a table."""
        several = table.sheet is not None and not {"{", "*"}.isdisjoint(table.sheet)
        named = compiled([table.sheet or ""], f"tables {name}")[0] if several else None
        for file in files:
            told = pattern.match(file) or {}
            if named is None:
                yield file, table.sheet, told
                continue
            there = sheets(self.root / file)
            fitting = {sheet: fields for sheet in there if (fields := named.match(sheet)) is not None}
            if not fitting:
                raise RulesError(f"table {name!r}: {file} has no sheet {table.sheet!r}{nearest(named.pattern, there)}")
            yield from ((file, sheet, told | fields) for sheet, fields in fitting.items())

    def _by_fields(self, name: str, pattern: Compiled, files: Sequence[str]) -> "_Joined":
        """One small file for each case, or for all cases that agree in its fields."""
        shared = [field for field in pattern.fields if field in fields_of(self.found)]
        if not shared and self.found:
            raise RulesError(
                f"table {name!r} shares no field with `images`{nearest(pattern.fields[0], fields_of(self.found))}"
            )
        by_values: dict[tuple[str, ...], list[Row]] = defaultdict(list)
        names: dict[tuple[str, ...], list[str]] = defaultdict(list)
        columns: dict[str, None] = {}
        for file in files:
            fields = pattern.match(file) or {}
            try:
                row = {**read_record(self.root / file), **fields}
            except TableError as error:
                self.account.leave("report or table that cannot be read: repair it", f"{file}: {error}")
                continue
            columns.update(dict.fromkeys(row))
            values = same_fields(fields, shared)
            by_values[values].append(row)
            names[values].append(file)
        found = _Joined(Rows(tuple(columns), []), [])
        called = [
            same_fields(case.fields, shared) if all(field in case.fields for field in shared) else ()
            for case in self.found
        ]
        alike = zeros_apart(by_values, {values for values in called if values})
        used = {alike.get(values, values) for values in called}
        found.rows += [by_values.get(alike.get(values, values), []) for values in called]
        lone = [file for values, several in names.items() if values not in used for file in several]
        if lone:
            self.account.leave(f"file of {pattern.pattern} without an image: add the image, or nothing to do", *lone)
        return found


class _Joined:
    """A table and its rows for each case."""

    def __init__(self, table: Rows, rows: list[list[Row]]) -> None:
        self.table, self.rows = table, rows
