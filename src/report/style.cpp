// The style sheet. Series colours are Okabe and Ito's; black and the two blues change places in dark mode, where
// the dark ones would sink into the ground.
#include "base/error.h"
#include "report/page.h"

namespace asr {

namespace {

constexpr const char* kLight = R"css(--ground: #fff; --ink: #1a1a1a; --soft: #595959; --rule: #d9d9d9;
  --panel: #f6f7f8; --s0: #0072b2; --s1: #d55e00; --s2: #009e73; --s3: #cc79a7; --s4: #e69f00; --s5: #000;
  --s6: #56b4e9;)css";

constexpr const char* kDark = R"css(--ground: #16181a; --ink: #e8e8e8; --soft: #a8adb2; --rule: #3a3f44;
  --panel: #1f2326; --s0: #56b4e9; --s5: #f2f2f2; --s6: #2f8fd0;)css";

constexpr const char* kIfDark = "@media (prefers-color-scheme: dark) { ";

constexpr const char* kPage = R"css(* { box-sizing: border-box; }
body { margin: 0; background: var(--ground); color: var(--ink); font: 16px/1.5 system-ui, sans-serif; }
main { max-width: 68rem; margin: 0 auto; padding: 1rem 1rem 3rem; }
h1 { font-size: 1.6rem; line-height: 1.2; margin: .5rem 0 1rem; overflow-wrap: anywhere; }
h2 { font-size: 1.3rem; margin: 2.2rem 0 .6rem; padding-top: .8rem; border-top: 2px solid var(--ink); overflow-wrap: anywhere; }
h3 { font-size: 1.1rem; margin: 2rem 0 .5rem; overflow-wrap: anywhere; }
h4 { font-size: 1rem; margin: 1rem 0 .3rem; }
small, .note, .notes, .legend { color: var(--soft); font-size: .875rem; }
.note, .legend { margin: .4rem 0; max-width: 46rem; }
.notes { max-width: 46rem; padding-left: 1.2rem; }
h3 a { color: inherit; text-decoration: none; } h3 a:hover, h3 a:focus-visible { text-decoration: underline; }
h3 .data { font-size: .8125rem; font-weight: 400; color: var(--soft); margin-left: .6rem; }
.answer { font-size: 1.15rem; line-height: 1.45; max-width: 52rem; margin: .4rem 0 .8rem; }
.labels { position: sticky; top: 0; z-index: 2; background: var(--ground); padding: .4rem 0; display: flex; flex-wrap: wrap; gap: .35rem; }
.labels[hidden] { display: none; }
.labels button { font: inherit; font-size: .875rem; color: inherit; background: var(--panel); border: 1px solid var(--rule);
  border-radius: 4px; padding: .1rem .5rem; cursor: pointer; }
.labels button[aria-pressed="false"] { opacity: .45; text-decoration: line-through; }
.labels svg { width: 26px; height: 10px; margin-right: .35rem; display: inline-block; vertical-align: middle; }
.labels output { font-size: .875rem; color: var(--soft); align-self: center; }
.tip { position: fixed; z-index: 3; max-width: min(24rem, 90vw); padding: .2rem .5rem; border-radius: 4px; pointer-events: none;
  background: var(--ink); color: var(--ground); font-size: .8125rem; overflow-wrap: anywhere; }
[data-topic] { cursor: pointer; } .chosen [data-topic]:not(.hit) { opacity: .15; }
thead th[tabindex] { cursor: pointer; } th[aria-sort="ascending"]::after { content: " \25B4"; }
th[aria-sort="descending"]::after { content: " \25BE"; }
.progress { border: 1px solid var(--rule); padding: 0 .8rem .4rem; } .progress h2 { border: 0; margin: 0; font-size: 1.1rem; }
progress { width: 12rem; max-width: 40vw; }
section { scroll-margin-top: 3rem; }
.remarks { background: var(--panel); border-left: 4px solid var(--s4); padding: .1rem 1rem; overflow-wrap: anywhere; }
.missing { background: var(--panel); padding: .5rem .8rem; color: var(--soft); overflow-wrap: anywhere; }
.legend span { display: inline-block; margin-right: 1rem; white-space: nowrap; color: var(--ink); }
.legend svg { width: 26px; height: 10px; margin-right: .35rem; display: inline-block; vertical-align: middle; }
.facts { display: grid; grid-template-columns: max-content 1fr; gap: .1rem 1rem; margin: .5rem 0; }
.facts dt { color: var(--soft); } .facts dd { margin: 0; overflow-wrap: anywhere; }
.scroll { overflow-x: auto; } .scroll svg { min-width: var(--least, 0); }
table { border-collapse: collapse; font-variant-numeric: tabular-nums; font-size: .9375rem; margin: .3rem 0 .8rem; }
caption { text-align: left; color: var(--soft); padding: .2rem 0; }
th, td { padding: .3rem .8rem .3rem 0; text-align: right; vertical-align: top; white-space: nowrap; }
th:first-child, .words { text-align: left; } th:first-child { font-weight: 600; }
thead th { border-bottom: 1px solid var(--ink); } tbody tr { border-bottom: 1px solid var(--rule); }
.grid { display: grid; gap: 1rem 1.2rem; }
.wide { grid-template-columns: repeat(auto-fill, minmax(min(100%, 29rem), 1fr)); }
.middle { grid-template-columns: repeat(auto-fill, minmax(min(100%, 20rem), 1fr)); }
.small { grid-template-columns: repeat(auto-fill, minmax(min(100%, 14rem), 1fr)); }
figure { margin: 0; min-width: 0; } figcaption { font-weight: 600; font-size: .9375rem; overflow-wrap: anywhere; }
figcaption small { font-weight: 400; }
svg { display: block; width: 100%; height: auto; overflow: visible; }
)css";

constexpr const char* kDrawings = R"css(svg text { font: 11px system-ui, sans-serif; fill: var(--ink); }
svg .tick { fill: var(--soft); font-size: 10.5px; } svg .label { fill: var(--soft); }
svg .end { text-anchor: end; } svg .middle { text-anchor: middle; }
svg .cell { text-anchor: middle; font-variant-numeric: tabular-nums; }
.axis { stroke: var(--soft); } .mesh { stroke: var(--rule); stroke-width: .7; }
.boundary { stroke: var(--rule); stroke-width: .7; }
.line { fill: none; stroke-width: 1.8; stroke-linejoin: round; } .band { stroke: none; opacity: .16; }
.first { stroke: var(--soft); stroke-width: 1.4; } .before { stroke-dasharray: 3 2.5; }
.rule { stroke-dasharray: 1.5 3 !important; stroke-width: 1.6; } .newest { stroke: var(--ink); stroke-width: 1.2; }
.d1 { stroke-dasharray: 6 3; } .d2 { stroke-dasharray: 2 2; } .d3 { stroke-dasharray: 8 2 2 2; }
.d4 { stroke-dasharray: 1 2; } .d5 { stroke-dasharray: 10 4; }
.s0 { stroke: var(--s0); } .s1 { stroke: var(--s1); } .s2 { stroke: var(--s2); } .s3 { stroke: var(--s3); }
.s4 { stroke: var(--s4); } .s5 { stroke: var(--s5); } .s6 { stroke: var(--s6); }
.f0 { fill: var(--s0); } .f1 { fill: var(--s1); } .f2 { fill: var(--s2); } .f3 { fill: var(--s3); }
.f4 { fill: var(--s4); } .f5 { fill: var(--s5); } .f6 { fill: var(--s6); }
.contour { stroke: #7a4a2a; stroke-width: .6; opacity: .7; } .ring { fill: none; stroke: #1a1a1a; stroke-width: 1.2; }
.stream { fill: none; stroke: #555; stroke-width: .9; opacity: .75; } .bar { stroke: none; opacity: .85; }
.violin { stroke-width: 1; fill-opacity: .45; } .wrong { fill-opacity: .12; stroke-dasharray: 3 2; } .whisker { stroke: var(--ink); stroke-width: 1.1; }
.outline { fill: none; } svg .over { fill: #333; font-size: 10px; }
.mark { stroke: var(--ground); stroke-width: .6; fill-opacity: .88; }
)css";

constexpr const char* kRest =
    R"css(.example { border-top: 1px solid var(--rule); padding: .6rem 0; }
pre { background: var(--panel); padding: .7rem .9rem; overflow-x: auto; } code { font-size: .875rem; }
summary { cursor: pointer; font-weight: 600; margin: .6rem 0 .3rem; }
footer { margin-top: 3rem; color: var(--soft); font-size: .875rem; }
@media (max-width: 32rem) { .small { grid-template-columns: 1fr 1fr; }
  th, td { padding-right: .55rem; } }
@media print { .labels, .tip, h3 .data { display: none; } :root { --ground: #fff; --ink: #000; --soft: #444; --rule: #bbb; --panel: #f3f3f3; --s0: #0072b2;
  --s5: #000; --s6: #56b4e9; } body { font-size: 10pt; } main { max-width: none; padding: 0; }
  .scroll { overflow: visible; } figure, tr, .example { break-inside: avoid; } h2, h3, h4, summary, .legend { break-after: avoid; }
  .wide { grid-template-columns: 1fr 1fr; } .small { grid-template-columns: repeat(4, 1fr); } }
)css";

// The rules with a list's values in place of its variables: programs other than browsers know no variables.
std::string with_values(std::string rules, const std::string& list) {
  for (size_t at = 0; (at = list.find("--", at)) != std::string::npos;) {
    const size_t colon = list.find(':', at), end = list.find(';', colon);
    const std::string name = "var(" + list.substr(at, colon - at) + ")",
                      value = list.substr(colon + 2, end - colon - 2);
    for (size_t hit; (hit = rules.find(name)) != std::string::npos;) rules.replace(hit, name.size(), value);
    at = end;
  }
  return rules;
}

}  // namespace

std::string page_style() {
  return cat("\n:root { ", kLight, " }\n", kIfDark, ":root { ", kDark, " } }\n", kPage, kDrawings, kRest);
}

std::string drawing_style() {
  const std::string light = with_values(kDrawings, kLight);
  return cat("\n", light, kIfDark, "\n", with_values(with_values(kDrawings, kDark), kLight), "}\n");
}

}  // namespace asr
