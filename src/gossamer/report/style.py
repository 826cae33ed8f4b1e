"""The style sheet of the report: system fonts, one accent colour, light and dark, phone and paper."""

CSS = """
:root {
  color-scheme: light dark;
  --paper: #ffffff; --wash: #f5f7f9; --ink: #18212c; --muted: #566270; --rule: #dde2e8; --shade: #b4bfcb;
  --accent: #14568f; --second: #b4500a;
  --good: #14713f; --good-wash: #e9f5ee; --warn: #8a5a00; --warn-wash: #fdf4df; --bad: #b01e1e; --bad-wash: #fdecec;
}
@media (prefers-color-scheme: dark) {
  :root {
    --paper: #12171d; --wash: #1a2129; --ink: #e4e9ee; --muted: #9aa7b4; --rule: #2d3742; --shade: #55636f;
    --accent: #6fb4ec; --second: #f0a25c;
    --good: #6fd39c; --good-wash: #15281e; --warn: #edc266; --warn-wash: #2b2412; --bad: #ff8f86; --bad-wash: #331a1a;
  }
}
* { box-sizing: border-box; }
html { -webkit-text-size-adjust: 100%; text-size-adjust: 100%; }
body {
  margin: 0; background: var(--paper); color: var(--ink); overflow-wrap: anywhere;
  font: 1rem/1.65 system-ui, -apple-system, "Segoe UI", Roboto, "Noto Sans", "Liberation Sans", sans-serif;
}
main { max-width: 50rem; margin: 0 auto; padding: 3.5rem 1.5rem 4rem; }
h1, h2, h3 { line-height: 1.25; text-wrap: balance; }
h1 { font-size: 2.1rem; letter-spacing: -0.02em; margin: 0.25rem 0 0.4rem; }
h2 { font-size: 1.3rem; letter-spacing: -0.01em; margin: 0 0 0.9rem; }
h3 { font-size: 1rem; margin: 1.8rem 0 0.4rem; }
p, ul { margin: 0 0 1rem; }
ul { padding-left: 1.2rem; }
li { margin: 0.3rem 0; }
section { margin-top: 3.25rem; padding-top: 1.9rem; border-top: 1px solid var(--rule); }
.brand { color: var(--accent); font-weight: 600; font-size: 0.85rem; letter-spacing: 0.08em; text-transform: uppercase }
.muted, footer, figcaption { color: var(--muted); font-size: 0.92rem; }
.lead { font-size: 1.1rem; color: var(--muted); margin-bottom: 1.8rem; }
.name { font-weight: 600; unicode-bidi: isolate; }
td, th, dd, dt, li, code { unicode-bidi: isolate; }

.verdict { border-left: 5px solid; border-radius: 0 10px 10px 0; padding: 1.15rem 1.4rem; margin: 0 0 1.6rem; }
.verdict h2 { margin: 0 0 0.35rem; font-size: 1.25rem; }
.verdict p:last-child, .verdict ul:last-child { margin-bottom: 0; }
.verdict.holds { border-color: var(--good); background: var(--good-wash); }
.verdict.reserved { border-color: var(--warn); background: var(--warn-wash); }
.verdict.broken { border-color: var(--bad); background: var(--bad-wash); }
.holds h2 { color: var(--good); }
.reserved h2 { color: var(--warn); }
.broken h2, .bad { color: var(--bad); }
.warn { color: var(--warn); }
.bad, .warn { font-weight: 600; }

.figures { display: grid; grid-template-columns: repeat(auto-fit, minmax(9.5rem, 1fr)); gap: 0.8rem; margin: 0; }
.figures div { background: var(--wash); border-radius: 10px; padding: 0.85rem 1rem; }
.figures div { display: flex; flex-direction: column; }
.figures dt { color: var(--muted); font-size: 0.82rem; line-height: 1.4; order: 2; }
.figures dd { margin: 0; font-size: 1.45rem; font-weight: 600; line-height: 1.35; font-variant-numeric: tabular-nums; }

.formula {
  font-family: Georgia, "Times New Roman", "Liberation Serif", serif; font-size: 1.08rem; line-height: 1.8;
  text-align: center; background: var(--wash); border-radius: 10px; padding: 0.9rem 1rem; margin: 0 0 1rem;
}
.formula i { white-space: nowrap; font-style: normal; }

.scroll { overflow-x: auto; margin: 0 0 1rem; }
.scroll { /* A shade at an edge beyond which there is more; covers that scroll along hide it where there is not. */
  background:
    linear-gradient(to right, var(--paper) 40%, transparent) left / 2rem 100% no-repeat local,
    linear-gradient(to left, var(--paper) 40%, transparent) right / 2rem 100% no-repeat local,
    linear-gradient(to right, var(--shade), transparent) left / 0.8rem 100% no-repeat scroll,
    linear-gradient(to left, var(--shade), transparent) right / 0.8rem 100% no-repeat scroll;
}
table { border-collapse: collapse; width: 100%; font-size: 0.94rem; line-height: 1.45; }
th, td { text-align: left; vertical-align: top; padding: 0.5rem 1.1rem 0.5rem 0; overflow-wrap: normal; }
th, td { border-bottom: 1px solid var(--rule); }
th { color: var(--muted); font-weight: 600; font-size: 0.82rem; vertical-align: bottom; }
th[scope=row] { color: var(--ink); font-weight: 500; font-size: inherit; vertical-align: top; }
.breaks { overflow-wrap: anywhere; min-width: 9rem; }
.pairs th:first-child { width: 40%; }
.long { max-height: 9rem; overflow-y: auto; }
td.number, th.number { text-align: right; font-variant-numeric: tabular-nums; white-space: nowrap; }
th.number { white-space: normal; }
tr > :last-child { padding-right: 0; }

figure { margin: 1.4rem 0; }
figure.wide, .curves figure:only-child {
  display: grid; grid-template-columns: minmax(0, 5fr) minmax(0, 2fr); gap: 0.5rem 1.5rem; align-items: center;
}
svg { display: block; width: 100%; height: auto; font-size: 12px; }
.curves { display: grid; grid-template-columns: repeat(auto-fit, minmax(min(21rem, 100%), 1fr)); gap: 0.5rem 2rem; }
.curves figure { margin: 0.6rem 0; }
.grid { stroke: var(--rule); }
.axis { stroke: var(--muted); }
.tick { fill: var(--muted); font-size: 11px; font-variant-numeric: tabular-nums; }
.label { fill: var(--ink); }
.line { fill: none; stroke-width: 2.2; stroke-linejoin: round; stroke-linecap: round; }
.line.main { stroke: var(--accent); }
.line.faint { stroke: var(--accent); stroke-width: 1; opacity: 0.35; }
.line.other { stroke: var(--second); stroke-dasharray: 9 6; }
.line.chance { stroke: var(--muted); stroke-width: 1.6; stroke-dasharray: 1 5; }

pre {
  background: var(--wash); border-radius: 10px; padding: 0.9rem 1.1rem; margin: 0 0 1rem; white-space: pre-wrap;
}
pre, code { font: 0.88rem/1.5 ui-monospace, "SF Mono", Menlo, Consolas, "Liberation Mono", monospace; }
footer { margin-top: 3.25rem; padding-top: 1.4rem; border-top: 1px solid var(--rule); }

@media (max-width: 34rem) {
  main { padding: 1.8rem 1.1rem 3rem; }
  h1 { font-size: 1.7rem; }
  section { margin-top: 2.3rem; padding-top: 1.5rem; }
  .figures { grid-template-columns: 1fr 1fr; }
  figure.wide, .curves figure:only-child { grid-template-columns: 1fr; }
  .figures dd { font-size: 1.2rem; }
  th, td { padding-right: 0.8rem; }
}
@media print {
  :root {
    color-scheme: light;
    --paper: #ffffff; --wash: #f5f7f9; --ink: #000000; --muted: #444444; --rule: #cccccc;
    --accent: #14568f; --second: #b4500a;
    --good: #14713f; --good-wash: #ffffff; --warn: #8a5a00; --warn-wash: #ffffff; --bad: #b01e1e; --bad-wash: #ffffff;
  }
  @page { margin: 18mm 16mm; }
  html { font-size: 10.5pt; }
  body { line-height: 1.5; }
  main { max-width: none; padding: 0; }
  section { margin-top: 1.6rem; padding-top: 1.1rem; }
  h2, h3 { break-after: avoid; }
  figure, tr, .verdict, .figures, .formula { break-inside: avoid; }
  .scroll, .long { overflow: visible; max-height: none; background: none; }
}
"""
