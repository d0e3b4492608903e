"""What a check-up found, as text, as Markdown, and as JSON."""

import html
import json
import textwrap
from dataclasses import asdict, dataclass, field

from tfm_lib.checkup.advice import ADVICE
from tfm_lib.checkup.causes import EXPLAINS

SEVERITIES = ("sick", "doubtful", "note")


@dataclass(frozen=True)
class Finding:
    """One thing that was seen, and what it means."""

    code: str  # stable, such as "causality.leak"
    severity: str  # "sick": it is wrong; "doubtful": it may be meant; "note": good to know
    seen: str  # on which tiny input
    means: str
    likely: str  # the likely line of code
    read: str  # lesson and section

    @classmethod
    def of(cls, code: str, seen: str, where: str = "") -> "Finding":
        """The finding with this code, with its advice; `where` names the part of the model that it was traced to."""
        severity, means, likely, (lesson, section) = ADVICE[code]
        likely = f"{where}: {likely}" if where else likely
        return cls(code, severity, seen, means, likely, f"lesson {lesson}, “{section}”")


@dataclass
class Report:
    """All findings of one check-up, the worst first, and what was tried. It prints as text."""

    kind: str = "unknown"
    findings: list[Finding] = field(default_factory=list)
    tried: list[str] = field(default_factory=list)  # in the order in which it was tried
    failed: list[str] = field(default_factory=list)  # those of them that found something sick
    not_tried: list[str] = field(default_factory=list)  # each with its reason
    not_given: list[str] = field(default_factory=list)  # what it would have examined, had it been given
    problem: str = ""  # why nothing could be examined, with the fix; empty where something was

    @property
    def sick(self) -> int:
        """The number of findings that are wrong whatever was meant."""
        return sum(finding.severity == "sick" for finding in self.findings)

    @property
    def healthy(self) -> bool:
        """Whether nothing of what was tried is sick; what is doubtful is for you to judge."""
        return not self.problem and not self.sick

    @property
    def codes(self) -> list[str]:
        """The codes of the findings, the worst first."""
        return [finding.code for finding in self.findings]

    @property
    def exit_code(self) -> int:
        """0: healthy; 1: something is sick; 2: it could not be examined; 3: nothing is sick, but not all was tried."""
        return 2 if self.problem else 1 if self.sick else 3 if self.not_tried else 0

    def add(self, code: str, seen: str, where: str = "") -> None:
        """Take a finding, once per code, the worst first, causes before what may follow, and else as they came."""
        if code not in self.codes:
            self.findings.append(Finding.of(code, seen, where))
        self.findings = sorted(self.findings, key=lambda f: (SEVERITIES.index(f.severity), bool(self.cause(f.code))))

    def cause(self, code: str) -> str | None:
        """The code of a finding from which this one may only follow, if there is one."""
        names = {code, code.partition(".")[0]}
        return next((other for other in self.codes if names & EXPLAINS.get(other, set())), None)

    def to_json(self) -> str:
        """For machines; `from_json` reads it."""
        judged = {"healthy": self.healthy, "exit_code": self.exit_code}
        return json.dumps({**asdict(self), **judged}, ensure_ascii=False, indent=2)

    @classmethod
    def from_json(cls, text: str) -> "Report":
        """What `to_json` wrote."""
        fields = json.loads(text)
        del fields["healthy"], fields["exit_code"]
        return cls(**{**fields, "findings": [Finding(**finding) for finding in fields["findings"]]})

    @property
    def verdict(self) -> str:
        """The first line of the report."""
        if self.problem:
            return f"It could not be examined: {self.problem}"
        first = [finding.severity for finding in self.findings if not self.cause(finding.code)]
        doubtful, faults = first.count("doubtful"), max(first.count("sick"), 1)
        to_judge = f", with {_count(doubtful, 'thing')} to judge" * bool(doubtful)
        state = f"sick: {_count(faults, 'fault')}" if self.sick else "healthy"
        if self.sick > faults:
            state += f", {_count(self.sick - faults, 'consequence')}"
        state += " as far as it was tried" * (self.exit_code == 3)
        parts = f"{_count(len(self.tried) - len(self.failed), 'part')} passed, {len(self.failed)} failed"
        left = f", {len(self.not_tried)} not tried: {'; '.join(self.not_tried)}" * bool(self.not_tried)
        return f"This {self.kind} model is {state}{to_judge}. {parts}{left}."

    def __str__(self) -> str:
        parts = [_wrap(self.verdict)]
        for f in self.findings:
            fields = [f"Seen: {f.seen}", f"It means: {f.means}", f"Likely: {f.likely}", f"Read: {f.read}"]
            lines = [f"[{f.severity}] {f.code}", *(f"  {line}" for line in [*fields, *self._follows(f, "")])]
            parts.append("\n".join(map(_wrap, lines)))
        return "\n\n".join([*parts, *map(_wrap, self._round())])

    def _repr_markdown_(self) -> str:
        lines = [f"**{_plain(self.verdict)}**"]
        for f in self.findings:
            lines += [
                f"- **{f.severity}: `{f.code}`.** {_plain(f.seen)} {_plain(f.means)}  ",
                f"  *Likely:* {_plain(f.likely)} *Read:* {_plain(f.read)}.",
                *(f"  {line}" for line in self._follows(f, "`")),
            ]
        return "\n".join([*lines, *(f"\n{line}" for line in self._round())])

    def _follows(self, finding: Finding, quote: str) -> list[str]:
        """That a finding may only follow from another one, whose code stands in these quotes."""
        cause = self.cause(finding.code)
        return [f"Mend {quote}{cause}{quote} first: this may only follow from it."] if cause else []

    def _round(self) -> list[str]:
        """What was tried, and what could not be since it was not given."""
        lists = {"Tried": ", ".join(self.tried), "Not given, so not examined": ", ".join(self.not_given)}
        return [f"{name}: {names}." for name, names in lists.items() if names]


def _count(number: int, thing: str) -> str:
    return f"{number} {thing}{'s' * (number != 1)}"


def _wrap(line: str) -> str:
    """Lines of a width that JupyterLab shows whole, all of them indented as the first."""
    indent = " " * (len(line) - len(line.lstrip()))
    return textwrap.fill(line, 88, subsequent_indent=indent, break_long_words=False)


def _plain(text: str) -> str:
    """The same in Markdown, where none of its signs is one of Markdown's."""
    return html.escape(text, quote=False).replace("*", "\\*").replace("_", "\\_").replace("`", "\\`")
