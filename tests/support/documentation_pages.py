"""Forty pages of documentation in the shapes of the usual generators, with what must be found in each.

Five subjects, eight shapes. The markup is what these programs write around code, tables and lists; the words
are our own.
"""

# ruff: noqa: E501 - lines of markup as generators write them
from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from html import escape


@dataclass(frozen=True, slots=True)
class DocumentationPage:
    """One page and what it holds."""

    name: str
    html: str
    code: tuple[str, ...]
    cells: tuple[str, ...]
    items: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class _Subject:
    name: str
    prose: tuple[str, ...]
    code: tuple[tuple[str, str], ...]
    header: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    items: tuple[str, ...]


_SUBJECTS = (
    _Subject(
        "queue",
        ("A queue hands work to workers one piece at a time.", "When it is full, putting waits."),
        (
            ("python", "import queue\n\njobs = queue.Queue(maxsize=8)\nfor n in range(3):\n    jobs.put(n)\n"),
            ("pycon", ">>> jobs.get()\n0\n>>> jobs.qsize()\n2"),
            ("console", "$ python worker.py --jobs 4\nstarted 4 workers"),
        ),
        ("Option", "Default", "Meaning"),
        (
            ("`maxsize`", "0", "Pieces that wait at most; 0 is not a limit"),
            ("`timeout`", "None", "Seconds | or for ever"),
            ("`block`", "True", "Whether to wait <at all>"),
        ),
        ("First in, first out", "Several threads may put", "A piece is taken once"),
    ),
    _Subject(
        "config",
        ("Settings are read from three places.", "What stands nearer to the project wins over the others."),
        (
            ("yaml", "server:\n  host: 0.0.0.0\n  port: 8080\n\n  tls:\n    cert: a.pem\n"),
            ("toml", '[server]\nhost = "0.0.0.0"\nport = 8080'),
            ("bash", 'export APP_PORT=8080\napp serve --tls "$HOME/a.pem" \\\n  --quiet'),
        ),
        ("Key", "Type", "Since"),
        (("server.host", "string", "1.0"), ("server.port", "integer", "1.0"), ("server.tls.cert", "path", "2.3")),
        ("Command line", "Variables", "Files", "Built-in values"),
    ),
    _Subject(
        "parser",
        ("The parser reads one statement after the other.", "Errors name the line and what was expected there."),
        (
            ("rust", "fn parse<'a>(s: &'a str) -> Result<Ast<'a>, Error> {\n    let t = lex(s)?;\n    Ok(t)\n}"),
            ("rust", "let ast = parse(\"1 + 2 * 3\").unwrap();\nassert_eq!(ast.eval(), 7);"),
            ("text", "stmt  = name '=' expr ';'\nexpr  = term (('+' | '-') term)*"),
        ),
        ("Token", "Example", "Binds"),
        (("Plus", "1 + 2", "left"), ("Star", "2 * 3", "left"), ("Power", "2 ** 3", "right"), ("Not", "!x", "none")),
        ("Lexing", "Parsing", "Checking"),
    ),
    _Subject(
        "http",
        ("The client keeps connections open.", "A request that fails is tried again when that is safe."),
        (
            ("js", "const res = await fetch(url, {\n  method: 'POST',\n  body: JSON.stringify({ a: [1, 2] }),\n});"),
            ("json", '{\n  "retries": 3,\n  "backoff": {"base": 0.5, "max": 30}\n}'),
            ("http", "GET /v1/items?limit=2 HTTP/1.1\nHost: api.example\nAccept: application/json"),
        ),
        ("Status", "Name", "Tried again"),
        (("200", "OK", "no"), ("429", "Too Many Requests", "after Retry-After"), ("503", "Unavailable", "yes")),
        ("GET is safe", "POST is not", "PUT may be repeated"),
    ),
    _Subject(
        "sql",
        ("A transaction holds all of its changes or none.", "Readers do not wait for writers."),
        (
            ("sql", "SELECT id, name\nFROM   users\nWHERE  age >= 18\n  AND  name LIKE 'A%'\nORDER  BY id;"),
            ("sql", "BEGIN;\nUPDATE t SET n = n + 1;\nCOMMIT;"),
            ("console", "sqlite> .tables\nusers  orders"),
        ),
        ("Level", "Dirty reads", "Phantoms"),
        (("read committed", "no", "yes"), ("repeatable read", "no", "yes"), ("serializable", "no", "no")),
        ("Begin", "Change", "Commit or roll back"),
    ),
)  # fmt: skip


def documentation_pages() -> list[DocumentationPage]:
    """All forty."""
    return [
        DocumentationPage(
            f"{shape.__name__.strip('_')}-{subject.name}",
            shape(subject),
            tuple(code for _, code in subject.code),
            tuple(cell.strip("`") for row in (subject.header, *subject.rows) for cell in row),
            subject.items,
        )
        for subject in _SUBJECTS
        for shape in _SHAPES
    ]


def _table(subject: _Subject, attributes: str = "", cell: Callable[[str], str] = escape) -> str:
    head = "".join(f'<th class="head"><p>{cell(each)}</p></th>' for each in subject.header)
    rows = "".join(f"<tr>{''.join(f'<td>{_cell(each)}</td>' for each in row)}</tr>" for row in subject.rows)
    return f"<table {attributes}><thead><tr>{head}</tr></thead><tbody>{rows}</tbody></table>"


def _cell(text: str) -> str:
    return f"<p><code>{escape(text[1:-1])}</code></p>" if text.startswith("`") else f"<p>{escape(text)}</p>"


def _plain_cell(text: str) -> str:
    return f"<td>{escape(text.strip('`'))}</td>"


def _list(items: Sequence[str], tag: str = "ul") -> str:
    return f"<{tag}>{''.join(f'<li><p>{escape(each)}</p></li>' for each in items)}</{tag}>"


def _prose(subject: _Subject) -> str:
    return "".join(
        f"<p>{escape(each)} See <a href='{subject.name}.html#x'>more</a>.</p>" for each in subject.prose
    )


def _coloured(code: str) -> str:
    """Each word in a span, as programs that colour code write it."""
    pieces = []
    for line in code.split("\n"):
        words = "".join(
            f'<span class="n">{escape(word)}</span>' if word.strip() else word for word in _split(line)
        )
        pieces.append(f"<span></span>{words}")
    return "\n".join(pieces)


def _split(line: str) -> list[str]:
    found = [""]
    for each in line:
        if found[-1] and (found[-1][-1] == " ") != (each == " "):
            found.append("")
        found[-1] += each
    return found


def _around(title: str, body: str, head: str = "") -> str:
    menu = "".join(f'<li><a href="p{n}.html">Chapter {n}</a></li>' for n in range(20))
    return (
        f"<!doctype html><html lang=en><head><meta charset=utf-8><title>{title}</title>{head}</head><body>"
        f'<nav role="navigation"><ul>{menu}</ul><form><input name=q></form></nav>{body}'
        f"<footer><p>Copyright the writers. <a href=/imprint>Imprint</a></p></footer><script>go()</script></body></html>"
    )


def _sphinx(subject: _Subject) -> str:
    blocks = "".join(
        f'<div class="highlight-{language} notranslate"><div class="highlight"><pre>{_coloured(code)}\n</pre></div></div>'
        for language, code in subject.code
    )
    body = (
        f'<div class="document"><div class="documentwrapper"><div class="bodywrapper"><div class="body" role="main">'
        f'<section id="{subject.name}"><h1>{subject.name}<a class="headerlink" href="#x" title="Link">¶</a></h1>'
        f"{_prose(subject)}<div class='admonition note'><p class='admonition-title'>Note</p><p>Mind this.</p></div>"
        f'<dl class="py function"><dt class="sig sig-object py"><code class="sig-name">open</code>(<em>path</em>)'
        f"</dt><dd><p>Open it.</p></dd></dl>{blocks}"
        f"{_table(subject, 'class=docutils align-default')}{_list(subject.items)}</section></div></div></div>"
        f'<div class="sphinxsidebar"><h3>Contents</h3><ul><li><a href="#a">A</a></li></ul></div></div>'
    )
    return _around(
        subject.name,
        body,
        '<meta name="generator" content="Docutils 0.21: https://docutils.sourceforge.io/">',
    )


def _sphinx_numbers(subject: _Subject) -> str:
    blocks = ""
    for language, code in subject.code:
        lines = code.strip("\n").split("\n")
        numbers = "\n".join(f'<span class="normal">{n}</span>' for n in range(1, len(lines) + 1))
        blocks += (
            f'<div class="highlight-{language}"><table class="highlighttable"><tr><td class="linenos"><div class="linenodiv">'
            f'<pre>{numbers}</pre></div></td><td class="code"><div class="highlight"><pre>{_coloured(code)}</pre></div>'
            "</td></tr></table></div>"
        )
    body = (
        f'<main class="bd-main"><article class="bd-article"><h1>{subject.name}</h1>{_prose(subject)}{blocks}'
    )
    return _around(subject.name, f"{body}{_table(subject)}{_list(subject.items, 'ol')}</article></main>")


def _mkdocs(subject: _Subject) -> str:
    blocks = ""
    for number, (language, code) in enumerate(subject.code):
        lines = "".join(
            f'<span id="__span-{number}-{n}"><a id="__codelineno-{number}-{n}" name="x" href="#x"></a>{_coloured(line)}\n</span>'
            for n, line in enumerate(code.rstrip("\n").split("\n"))
        )
        blocks += (
            f'<div class="language-{language} highlight"><pre><span></span><button class="md-clipboard">Copy</button>'
            f"<code>{lines}</code></pre></div>"
        )
    body = (
        f'<div class="md-main"><div class="md-sidebar"><nav class="md-nav">menu</nav></div><div class="md-content">'
        f'<article class="md-content__inner md-typeset"><h1 id=a>{subject.name}<a class=headerlink href=#a>&para;</a></h1>'
        f"{_prose(subject)}<details class=note><summary>More</summary><p>Folded text.</p></details>{blocks}"
        f'<div class="md-typeset__scrollwrap"><div class="md-typeset__table">{_table(subject)}</div></div>'
        f"{_list(subject.items)}</article></div></div>"
    )
    return _around(subject.name, body, '<meta name="generator" content="mkdocs-1.6, mkdocs-material-9.5">')


def _docusaurus(subject: _Subject) -> str:
    blocks = ""
    for language, code in subject.code:
        lines = "".join(
            f'<span class="token-line" style="color:#393A34"><span class="token plain">{escape(line)}</span><br></span>'
            for line in code.rstrip("\n").split("\n")
        )
        blocks += (
            f'<div class="language-{language} codeBlockContainer_x theme-code-block"><div class="codeBlockContent_y">'
            f'<pre tabindex="0" class="prism-code language-{language} thin-scrollbar"><code class="codeBlockLines_z">{lines}'
            f'</code></pre><div class="buttonGroup_q"><button type="button">Copy</button></div></div></div>'
        )
    body = (
        f'<main class="docMainContainer_x"><article><div class="theme-doc-markdown markdown"><header><h1>{subject.name}</h1>'
        f'</header>{_prose(subject)}<div class="tabs-container"><ul role="tablist" class="tabs"><li role="tab">A</li></ul>'
        f'<div><div role="tabpanel">{blocks}</div><div role="tabpanel" hidden><p>Second tab.</p></div></div></div>'
        f"{_table(subject)}{_list(subject.items)}</div></article></main>"
    )
    return _around(subject.name, body, '<meta name="generator" content="Docusaurus v3.5">')


def _rustdoc(subject: _Subject) -> str:
    blocks = "".join(
        f'<div class="example-wrap"><pre class="rust rust-example-rendered"><code>{_coloured(code)}</code></pre></div>'
        for _, code in subject.code
    )
    body = (
        f'<main><div class="width-limiter"><section id="main-content" class="content"><div class="main-heading"><h1>Module '
        f'<span>{subject.name}</span></h1></div><details class="toggle top-doc" open><summary class="hideme"><span>Expand'
        f'</span></summary><div class="docblock">{_prose(subject)}{blocks}<div>{_table(subject)}</div>{_list(subject.items)}'
        f'</div></details><h2 id="structs">Structs</h2><dl class="item-table"><dt><a class="struct" href="s.html">Lexer</a>'
        f"</dt><dd>Cuts text.</dd></dl></section></div></main>"
    )
    return _around(subject.name, body, '<meta name="generator" content="rustdoc">')


def _man(subject: _Subject) -> str:
    blocks = "".join(f"<pre>\n{escape(code)}</pre>" for _, code in subject.code)
    options = "".join(
        f"<dt><b>-{each[0].lower()}</b></dt><dd><p>{escape(each)}</p></dd>" for each in subject.items
    )
    rows = [subject.header, *subject.rows]
    cells = "".join(f"<tr>{''.join(map(_plain_cell, row))}</tr>" for row in rows)
    return (
        f"<html><head><title>{subject.name}(1)</title></head><body><table class=head><tr><td>{subject.name}(1)</td>"
        f"<td>General Commands</td><td>{subject.name}(1)</td></tr></table><h1>NAME</h1><p>{subject.name} - a program</p>"
        f"<h1>DESCRIPTION</h1>{_prose(subject)}<h1>OPTIONS</h1><dl class='Bl-tag'>{options}</dl><h1>EXAMPLES</h1>{blocks}"
        f"<h1>TABLE</h1><table class='tbl'>{cells}</table></body></html>"
    )


def _readme(subject: _Subject) -> str:
    blocks = "".join(
        f'<div class="highlight highlight-source-{language} notranslate overflow-auto" dir="auto"><pre>{_coloured(code)}</pre>'
        f'<div class="zeroclipboard-container"><clipboard-copy aria-label="Copy" value="{escape(code)}"></clipboard-copy>'
        "</div></div>"
        for language, code in subject.code
    )
    table = f"<markdown-accessiblity-table>{_table(subject)}</markdown-accessiblity-table>"
    body = (
        f'<div class="Box-body"><article class="markdown-body entry-content" itemprop="text"><div class="markdown-heading">'
        f'<h1>{subject.name}</h1><a class="anchor" href="#x"><svg></svg></a></div>{_prose(subject)}{blocks}{table}'
        f"{_list(subject.items)}</article></div>"
    )
    return _around(subject.name, f"<div class=Layout-main>{body}</div>")


def _reference(subject: _Subject) -> str:
    """Mostly tables and nested lists, code within cells and items."""
    inner = "".join(
        f"<li>{escape(each)}<ul><li>part of {escape(each)}</li></ul></li>" for each in subject.items
    )
    (language, first), *others = subject.code
    blocks = "".join(
        f'<pre><code class="{lang} language-{lang}">{escape(code)}</code></pre>' for lang, code in others
    )
    nested = f'<ol><li><p>Do this:</p><pre><code class="language-{language}">{escape(first)}</code></pre></li></ol>'
    wide = _table(subject, "border=1")
    return _around(
        subject.name,
        f"<div id=content><h1>{subject.name}</h1>{_prose(subject)}{wide}<ul>{inner}</ul>{nested}{blocks}</div>",
    )


_SHAPES = (_sphinx, _sphinx_numbers, _mkdocs, _docusaurus, _rustdoc, _man, _readme, _reference)


def found_code(content: str, code: str) -> bool:
    """Whether a block of code is there with every line, in order and with its indentation."""
    wanted = code.strip("\n").split("\n")
    lines = content.split("\n")
    for start, line in enumerate(lines):
        shift = len(line) - len(line.lstrip(" ")) - (len(wanted[0]) - len(wanted[0].lstrip(" ")))
        if shift < 0 or line[shift:].rstrip() != wanted[0].rstrip():
            continue
        piece = [
            each[shift:] if each[:shift].strip() == "" else each
            for each in lines[start : start + len(wanted)]
        ]
        if [each.rstrip() for each in piece] == [each.rstrip() for each in wanted]:
            return True
    return False


def found_cells(content: str, cells: Sequence[str]) -> int:
    """How many cells stand by themselves in a row of a table."""
    rows = [line for line in content.split("\n") if line.lstrip().startswith("|")]
    present = {
        each.strip()
        .replace("`", "")
        .replace("\\|", "|")
        .replace("\\", "")
        .replace("&lt;", "<")
        .replace("&gt;", ">")
        for row in rows
        for each in row.replace("\\|", "\0").strip().strip("|").split("|")
    }
    plain = {each.replace("\0", "|") for each in present}
    return sum(cell in plain for cell in cells)
