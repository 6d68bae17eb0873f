#!/usr/bin/env python3
"""Records a run of evo in a terminal as an animated SVG.

    docs/record.py                              # `evo sweep --gen 3` into docs/sweep.svg
    docs/record.py --out x.svg -- evo sweep gemm --gen 3

The command runs under a pseudo-terminal of fixed width, in an empty folder and with an empty compile
cache, as on a first run. A small terminal emulator follows what it prints; the SVG shows a few of the
screens that it saw, in order, and then the last one. No text is edited. The picture needs no script and
no font file, follows the reader's light or dark theme, and shows only the last screen to readers who
prefer reduced motion. Python's standard library is all that it needs.
"""

import argparse
import fcntl
import html
import os
import pty
import re
import select
import shlex
import struct
import sys
import tempfile
import termios
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
# A redraw arrives in several pieces; a screen counts as drawn after this long without another piece.
SETTLED_S = 0.03
CELL_W, CELL_H, MARGIN = 8.0, 17.0, 14.0
STYLE = """
text{font:13px ui-monospace,SFMono-Regular,Menlo,Consolas,"DejaVu Sans Mono",monospace;fill:#1f2328;white-space:pre}
.prompt{font-weight:bold}
.back{fill:#f6f8fa;stroke:#d1d9e0}
.bar{fill:#1a7f37}
@media(prefers-color-scheme:dark){text{fill:#e6edf3}.back{fill:#161b22;stroke:#30363d}.bar{fill:#3fb950}}
@media(prefers-reduced-motion:reduce){g{animation:none!important}}
"""


class Screen:
    """What a terminal shows: rows of characters and a cursor. Colors are ignored."""

    SEQUENCE = re.compile(r"\x1b\[([0-9;?]*)([A-Za-z])")

    def __init__(self, width):
        self.width = width
        self.rows = [[]]
        self.row = self.column = 0

    def feed(self, text):
        """Shows `text`; returns the tail of a control sequence that is not complete yet."""
        at = 0
        while at < len(text):
            if text[at] == "\x1b":
                match = self.SEQUENCE.match(text, at)
                if match is None:
                    if len(text) - at < 16:
                        return text[at:]
                    sys.exit(f"error: unknown control sequence {text[at:at + 16]!r}")
                self.control(match[2], match[1])
                at = match.end()
            else:
                self.put(text[at])
                at += 1
        return ""

    def put(self, character):
        if character == "\r":
            self.column = 0
        elif character == "\n":
            self.down(1)
        else:
            # As in a terminal, the line breaks when the character after a full line arrives.
            if self.column == self.width:
                self.column = 0
                self.down(1)
            row = self.rows[self.row]
            row.extend(" " * (self.column + 1 - len(row)))
            row[self.column] = character
            self.column += 1

    def down(self, count):
        self.row += count
        self.rows.extend([] for _ in range(self.row + 1 - len(self.rows)))

    def control(self, final, parameters):
        count = int(parameters) if parameters.isdigit() else 1
        if final == "A":
            self.row = max(0, self.row - count)
        elif final == "B":
            self.down(count)
        elif final == "K":
            row = self.rows[self.row]
            if parameters == "2":
                row.clear()
            else:
                del row[self.column:]
        elif final == "J":
            del self.rows[self.row][self.column:]
            del self.rows[self.row + 1:]
        elif final not in "mhl":
            sys.exit(f"error: unknown control sequence CSI {parameters}{final}")
        # After a movement at the end of a full line, the next character goes to the last column.
        if final in "AB":
            self.column = min(self.column, self.width - 1)

    def text(self):
        rows = ["".join(row).rstrip() for row in self.rows]
        while rows and not rows[-1]:
            rows.pop()
        return tuple(rows)


def record(command, width, height):
    """Runs `command`; returns the screens it showed as (seconds since the start, rows)."""
    scratch = tempfile.TemporaryDirectory(prefix="evo-record-")
    pid, terminal = pty.fork()
    if pid == 0:
        work = Path(scratch.name, "work")
        work.mkdir()
        os.chdir(work)
        os.environ.update(TERM="xterm-256color", EVO_CACHE_DIR=str(Path(scratch.name, "cache")))
        os.environ.pop("COLUMNS", None)
        # The parent sets the size before this program can ask for it.
        time.sleep(0.2)
        os.execvp(command[0], command)
    fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", height, width, 0, 0))
    screen, screens, start, left, undecoded = Screen(width), [], time.monotonic(), "", b""
    while True:
        if not select.select([terminal], [], [], SETTLED_S)[0]:
            now = screen.text()
            if not screens or screens[-1][1] != now:
                screens.append((time.monotonic() - start, now))
            select.select([terminal], [], [])
        try:
            piece = os.read(terminal, 65536)
        except OSError:  # how Linux reports that the other side is closed
            break
        if not piece:
            break
        undecoded += piece
        try:
            text, undecoded = undecoded.decode(), b""
        except UnicodeDecodeError as error:
            text, undecoded = undecoded[: error.start].decode(), undecoded[error.start:]
        left = screen.feed(left + text)
    status = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    screens.append((time.monotonic() - start, screen.text()))
    scratch.cleanup()
    if status != 0:
        sys.exit(f"error: exit code {status}\n" + "\n".join(screens[-1][1]))
    return screens


def chosen(screens, count):
    """`count` screens about equally far apart in time, and the last one."""
    end = screens[-1][0]
    moments = [end * (i + 0.5) / count for i in range(count)]
    frames = []
    for moment in moments:
        seen = [rows for at, rows in screens[:-1] if at <= moment and rows]
        if seen and (not frames or frames[-1] != seen[-1]):
            frames.append(seen[-1])
    return frames, screens[-1][1]



def spans(row):
    """(column, text) of the words of a row, split where two spaces or a bar separate them."""
    for match in re.finditer(r"[━╸╺]+|[^\s━╸╺]+(?: [^\s━╸╺]+)*", row):
        yield match.start(), match.group()


def number(value):
    return f"{value:.1f}".rstrip("0").rstrip(".")


def row_svg(row, line, prompt=False):
    y = MARGIN + CELL_H * line
    for column, text in spans(row):
        x = MARGIN + CELL_W * column
        if text[0] in "━╸╺":
            cells = sum(0.5 if character in "╸╺" else 1 for character in text)
            yield (f'<rect class="bar" x="{number(x)}" y="{number(y + 6.5)}" '
                   f'width="{number(CELL_W * cells)}" height="4"/>')
        else:
            # `textLength` keeps the columns in place whatever font the reader has.
            style = ' class="prompt"' if prompt else ""
            yield (f'<text{style} x="{number(x)}" y="{number(y + 13)}" '
                   f'textLength="{number(CELL_W * len(text))}">{html.escape(text)}</text>')


def svg(prompt, frames, last, width, seconds_per_frame, seconds_of_last):
    total = len(frames) * seconds_per_frame + seconds_of_last
    lines = 1 + max(len(rows) for rows in [*frames, last])
    w, h = width * CELL_W + 2 * MARGIN, lines * CELL_H + 2 * MARGIN
    rules = []
    for i in range(len(frames) + 1):
        begin, end = (100 * seconds_per_frame * j / total for j in (i, i + 1))
        shown = [f"{begin:.2f}%{{opacity:1}}"] if begin else ["0%{opacity:1}"]
        hidden = ["0%{opacity:0}"] if begin else []
        if i < len(frames):
            shown.append(f"{end:.2f}%{{opacity:0}}")
        rules.append(f"@keyframes f{i}{{{''.join(hidden + shown)}}}"
                     f"#f{i}{{opacity:{int(i == len(frames))};animation:f{i} {number(total)}s step-end infinite}}")
    out = [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {number(w)} {number(h)}" role="img">',
           f"<title>{html.escape(prompt)}</title>", f"<style>{STYLE}{chr(10).join(rules)}</style>",
           f'<rect class="back" x=".5" y=".5" width="{number(w - 1)}" height="{number(h - 1)}" rx="8"/>',
           *row_svg("$ " + prompt, 0, prompt=True)]
    for i, rows in enumerate([*frames, last]):
        out.append(f'<g id="f{i}">')
        for line, row in enumerate(rows):
            out.extend(row_svg(row, line + 1))
        out.append("</g>")
    return "\n".join([*out, "</svg>", ""])


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", default=ROOT / "docs/sweep.svg", type=Path)
    parser.add_argument("--width", default=100, type=int, help="columns of the terminal")
    parser.add_argument("--height", default=40, type=int, help="rows of the terminal")
    parser.add_argument("--frames", default=16, type=int, help="screens shown before the last one")
    parser.add_argument("command", nargs="*", help="default: target/release/evo sweep --gen 3")
    options = parser.parse_args()
    command = options.command or [str(ROOT / "target/release/evo"), "sweep", "--gen", "3"]
    if "/" in command[0]:
        command[0] = str(Path(command[0]).resolve())
    prompt = shlex.join([Path(command[0]).name, *command[1:]])
    screens = record(command, options.width, options.height)
    frames, last = chosen(screens, options.frames)
    text = svg(prompt, frames, last, options.width, seconds_per_frame=0.6, seconds_of_last=10)
    options.out.write_text(text)
    print(f"{options.out}: {len(text.encode())} bytes, {len(frames)} screens of {screens[-1][0]:.0f} s")


if __name__ == "__main__":
    main()
