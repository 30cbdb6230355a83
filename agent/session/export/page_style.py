"""The look of an exported page: one column of text, quiet colours for light and for dark rooms."""

CSS = """
:root {
  color-scheme: light dark;
  --page: #fbfaf8; --card: #ffffff; --text: #24221f; --quiet: #6b665f; --line: #e4e0d9; --accent: #1f6f5c;
  --asked: #f1eee8; --code: #f5f3ee; --added: #e3f3e6; --added-text: #1b5e2c; --removed: #fbe7e5;
  --removed-text: #8f261c; --keyword: #8a3b8f; --string: #3b6e22; --number: #a04b00; --name: #1d5fa8;
  --warning: #8a5a00; --failed: #a8281c;
}
@media (prefers-color-scheme: dark) {
  :root {
    --page: #171819; --card: #1e2022; --text: #dedbd5; --quiet: #98938a; --line: #33363a; --accent: #6fc3ac;
    --asked: #25282b; --code: #1a1c1e; --added: #17301f; --added-text: #93d6a4; --removed: #3a1e1c;
    --removed-text: #f0a59c; --keyword: #d59ae0; --string: #a5d08a; --number: #e5a868; --name: #8ab8ee;
    --warning: #e0b35c; --failed: #f08a7e;
  }
}
* { box-sizing: border-box; }
body {
  margin: 0; background: var(--page); color: var(--text);
  font: 16px/1.6 system-ui, -apple-system, "Segoe UI", Roboto, "Noto Sans", sans-serif;
}
header, main, footer { max-width: 52rem; margin: 0 auto; padding: 0 1.25rem; }
header { padding-top: 2.5rem; }
header h1 { font-size: 1.6rem; line-height: 1.25; margin: 0 0 .35rem; overflow-wrap: anywhere; }
.facts, footer { color: var(--quiet); font-size: .875rem; }
.facts { margin: 0; padding-bottom: 1.25rem; border-bottom: 1px solid var(--line); }
footer { padding-top: 1.25rem; padding-bottom: 3rem; border-top: 1px solid var(--line); margin-top: 2.5rem; }
article { margin: 1.75rem 0; overflow-wrap: anywhere; }
article > h2 {
  display: flex; justify-content: space-between; gap: 1rem; align-items: baseline;
  font-size: .8125rem; font-weight: 600; color: var(--quiet); margin: 0 0 .4rem;
}
article > h2 a {
  color: inherit; text-decoration: none; font-weight: 400; font-variant-numeric: tabular-nums;
}
article > h2 a:hover { text-decoration: underline; }
.user .said {
  background: var(--asked); border-left: 3px solid var(--accent); border-radius: 4px;
  padding: .7rem 1rem; white-space: pre-wrap;
}
.notice p { margin: 0; color: var(--quiet); font-size: .9375rem; white-space: pre-wrap; }
.notice.warning p { color: var(--warning); }
a { color: var(--accent); }
.prose > :first-child { margin-top: 0; }
.prose h1, .prose h2, .prose h3, .prose h4, .prose h5, .prose h6 { line-height: 1.3; margin: 1.4rem 0 .5rem; }
.prose h1 { font-size: 1.3rem; } .prose h2 { font-size: 1.15rem; } .prose h3 { font-size: 1.05rem; }
.prose h4, .prose h5, .prose h6 { font-size: 1rem; }
.prose p, .prose ul, .prose ol { margin: .6rem 0; }
.prose blockquote {
  margin: .8rem 0; padding-left: 1rem; border-left: 3px solid var(--line); color: var(--quiet);
}
.prose hr { border: 0; border-top: 1px solid var(--line); margin: 1.5rem 0; }
.prose table { border-collapse: collapse; display: block; overflow-x: auto; margin: .8rem 0; }
.prose th, .prose td { border: 1px solid var(--line); padding: .3rem .7rem; text-align: left; }
.prose .center { text-align: center; } .prose .right { text-align: right; }
code, pre { font-family: ui-monospace, "SF Mono", Menlo, Consolas, "DejaVu Sans Mono", monospace; }
:not(pre) > code { font-size: .875em; background: var(--code); border-radius: 3px; padding: .1em .3em; }
pre.code {
  margin: .6rem 0; padding: .75rem .9rem; overflow-x: auto; font-size: .8125rem; line-height: 1.5;
  background: var(--code); border: 1px solid var(--line); border-radius: 6px; tab-size: 4;
}
details { margin: .45rem 0; border: 1px solid var(--line); border-radius: 6px; background: var(--card); }
summary {
  cursor: pointer; padding: .4rem .8rem; font-size: .875rem; display: flex; gap: .6rem; align-items: baseline;
  list-style: none;
}
summary::-webkit-details-marker { display: none; }
summary:focus-visible { outline: 2px solid var(--accent); outline-offset: 1px; border-radius: 6px; }
summary .subject { flex: 1; min-width: 0; overflow: hidden; text-overflow: ellipsis; white-space: nowrap;
  font-family: ui-monospace, Menlo, Consolas, "DejaVu Sans Mono", monospace; font-size: .8125rem; }
summary .outcome { color: var(--quiet); font-size: .8125rem; flex: none; max-width: 45%; overflow: hidden;
  text-overflow: ellipsis; white-space: nowrap; }
summary .mark { color: var(--accent); flex: none; }
.failed > summary .mark, .failed > summary .outcome, .denied > summary .mark, .interrupted > summary .mark {
  color: var(--failed); }
details[open] > summary { border-bottom: 1px solid var(--line); }
details .inside { padding: .2rem .8rem .5rem; }
details .inside h3 { font-size: .75rem; font-weight: 600; color: var(--quiet); margin: .6rem 0 0; }
details.thought .inside {
  color: var(--quiet); font-size: .9375rem; white-space: pre-wrap; padding-top: .5rem;
}
.da, .dr { display: inline-block; min-width: 100%; }
.da { background: var(--added); color: var(--added-text); }
.dr { background: var(--removed); color: var(--removed-text); }
.dh { color: var(--name); } .dm { color: var(--quiet); font-weight: 600; }
.c, .c1, .cm, .ch, .cs, .cp, .cpf, .gp { color: var(--quiet); }
.k, .kd, .kn, .kp, .kr, .kt, .ow, .nt { color: var(--keyword); }
.s, .s1, .s2, .sa, .sb, .sc, .sd, .se, .sh, .si, .sx, .sr, .ss, .dl { color: var(--string); }
.m, .mi, .mf, .mh, .mo, .mb, .il, .kc, .no, .l { color: var(--number); }
.nf, .fm, .nc, .nb, .nd, .na, .ne, .gh, .gu { color: var(--name); }
.gi { color: var(--added-text); } .gd { color: var(--removed-text); } .gr { color: var(--failed); }
@media print {
  pre.code { white-space: pre-wrap; overflow-wrap: anywhere; }
  article, details { break-inside: auto; }
}
"""
