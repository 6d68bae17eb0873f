#!/usr/bin/env python3
"""Builds the book of all pages, docs/book, with mdBook: docs/book.py

mdBook wants all of a book's pages in one folder, and ours lie beside what they describe. So this copies the pages
that docs/SUMMARY.md lists, with the files that they link to, to target/book as they lie in the repository, and builds
there. Afterwards every link of the built pages has to lead to a file.

Without mdBook it says so and ends with 0. `cargo install mdbook --locked --root target/tools` puts it where this looks.
"""

import html
import os
import re
import shutil
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
STAGE = ROOT / "target/book"
BOOK = ROOT / "docs/book"
LINK = re.compile(r"\]\(([^)\s#]+)([^)\s]*)\)")

SETTINGS = """\
[book]
title = "evo"
description = "Finds the fastest variant of a CUDA kernel that still gives correct results"
language = "en"

[build]
create-missing = false

[output.html]
no-section-label = true

[output.html.fold]
enable = true
level = 0
"""


def main():
    mdbook = shutil.which("mdbook", path=f"{os.environ.get('PATH', '')}:{ROOT / 'target/tools/bin'}")
    if not mdbook:
        print("note: mdbook is not installed, so the book is not built and its pages are not linked", file=sys.stderr)
        print("hint: cargo install mdbook --locked --root target/tools", file=sys.stderr)
        return 0
    folders = stage()
    shutil.rmtree(BOOK, ignore_errors=True)
    subprocess.run([mdbook, "build", STAGE, "--dest-dir", BOOK], check=True)
    for folder in folders:
        list_folder(folder)
    dead = dead_links()
    for link in dead:
        print(f"error: {link}", file=sys.stderr)
    print(f"the book is in {BOOK.relative_to(ROOT)}: {len(list(BOOK.rglob('*.html')))} pages")
    return 1 if dead else 0


def stage():
    """Copies pages and what they link to, and returns the folders that are linked."""
    shutil.rmtree(STAGE, ignore_errors=True)
    src = STAGE / "src"
    src.mkdir(parents=True)
    (STAGE / "book.toml").write_text(SETTINGS)
    summary = (ROOT / "docs/SUMMARY.md").read_text()
    pages = []

    def from_root(match):
        pages.append(os.path.normpath(f"docs/{match.group(1)}"))
        return f"]({index(pages[-1])})"

    (src / "SUMMARY.md").write_text(LINK.sub(from_root, summary))
    files = set(pages)
    folders = set()
    for page in pages:
        for target, _ in LINK.findall((ROOT / page).read_text()):
            path = os.path.normpath(f"{Path(page).parent}/{target}")
            if "://" not in target and (ROOT / path).is_dir():
                folders.add(path)
                files.update(str(own.relative_to(ROOT)) for own in (ROOT / path).iterdir() if own.is_file())
            elif "://" not in target and (ROOT / path).is_file():
                files.add(path)
    for file in files:
        (src / file).parent.mkdir(parents=True, exist_ok=True)
        if file in pages:
            text = LINK.sub(lambda link: f"]({index(link[1])}{link[2]})", (ROOT / file).read_text())
            (src / index(file)).write_text(text)
        else:
            shutil.copyfile(ROOT / file, src / file)
    return sorted(folders)


def index(path):
    """The page of a folder by the name that web servers look for. mdBook renames it too, but not the links to it."""
    return re.sub(r"(^|/)README\.md$", r"\1index.md", path)


def list_folder(folder):
    """A page for a folder that a link leads to, because not every server lists folders."""
    index = BOOK / folder / "index.html"
    if index.exists():
        return
    names = sorted(path.name for path in index.parent.iterdir() if path.is_file())
    items = "".join(f'<li><a href="{html.escape(name)}">{html.escape(name)}</a></li>\n' for name in names)
    index.write_text(f"<!DOCTYPE html>\n<meta charset=utf-8>\n<title>{folder}</title>\n<ul>\n{items}</ul>\n")


class Page(HTMLParser):
    """The links and the anchors of a built page."""

    def __init__(self, text):
        super().__init__()
        self.links, self.anchors = [], set()
        self.feed(text)

    def handle_starttag(self, tag, attributes):
        for name, value in attributes:
            if name == "id":
                self.anchors.add(value)
            elif name in ("href", "src") and value and tag in ("a", "img"):
                self.links.append(value)


def dead_links():
    # The page for printing repeats all others, with links that its script puts right; `toc.html` is a frame.
    skipped = ("print.html", "404.html", "toc.html")
    pages = {path: Page(path.read_text()) for path in BOOK.rglob("*.html") if path.name not in skipped}
    dead = []
    for path, page in sorted(pages.items()):
        for link in page.links:
            if re.match(r"[a-z]+:", link):
                continue
            target, _, anchor = link.partition("#")
            file = Path(os.path.normpath(path.parent / target)) if target else path
            file = file / "index.html" if file.is_dir() else file
            is_there = file.exists() and (not anchor or file not in pages or anchor in pages[file].anchors)
            if not is_there:
                dead.append(f"{path.relative_to(BOOK)} links to {link}, which is not there")
    return dead


if __name__ == "__main__":
    sys.exit(main())
