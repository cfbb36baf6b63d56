//! The page.

use sangam_sim::study::{Claim, Section, Table, Verdict};

use super::{Report, plot};
use crate::program::Failure;

const STYLE: &str = "\
:root{color-scheme:light}
body{font:16px/1.5 system-ui,sans-serif;color:#222;background:#fff;margin:0 auto;\
padding:1.5rem;max-width:1200px}
h1{font-size:1.6rem;margin:0 0 .5rem}h2{font-size:1.25rem;margin:2.5rem 0 .5rem}
h3{font-size:1rem;margin:1.5rem 0 .3rem}p{max-width:75ch}
.wide{overflow-x:auto}table{border-collapse:collapse;font-size:.85rem;\
font-variant-numeric:tabular-nums}
th,td{padding:.25rem .6rem;text-align:right;border-bottom:1px solid #ddd;white-space:nowrap}
th{background:#f4f4f4;text-align:right;vertical-align:bottom;white-space:normal}
td:first-child,th:first-child{text-align:left;position:sticky;left:0;background:#fff}
th:first-child{background:#f4f4f4}
tbody tr:hover td{background:#f0f6fb}
.claims td{white-space:normal;text-align:left;vertical-align:top}
.claims th{text-align:left}
.holds{color:#00664a;font-weight:600}.partly{color:#8a5a00;font-weight:600}
.fails{color:#a3320b;font-weight:600}.open{color:#666}
.figures{display:grid;grid-template-columns:repeat(auto-fill,minmax(22rem,1fr));gap:1rem}
.figures svg{width:100%;height:auto;border:1px solid #eee}
nav li{margin:.1rem 0}dl{display:grid;grid-template-columns:max-content 1fr;gap:.1rem 1rem}
dt{color:#555}dd{margin:0}";

const WORDS: &str = "\
<p>Every method of routing sends every packet over the same networks, and every receiver hears \
every method. <b>Release</b> is when a receiver hands a packet on in order, <b>playout</b> when \
it is heard; the paper compares one receiver's playout with another's release, so both are shown \
for all. <b>Late loss</b> is what arrived too late to be handed on. Brackets hold 95 % intervals, \
from blocks of 20 s that are drawn again, the same blocks for all methods. BF is WebRTC's NetEQ, \
WM is WMJitter, DRT direct, VCR is VCRoute; <i>literal</i>, or l, means to the letter of the \
paper, and lw so with the jitter of the last two seconds.</p>";

/// The page, which loads nothing.
///
/// # Errors
/// If a figure cannot be drawn.
pub(super) fn html(report: &Report) -> Result<String, Failure> {
    let mut out = format!(
        "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <title>Routing and jitter</title>\n<style>\n{STYLE}\n</style></head><body>\n\
         <h1>Routing and jitter</h1>\n{WORDS}\n"
    );
    facts(&mut out, report);
    if !report.lacking.is_empty() {
        out += "<h2 id=\"lacking\">What is not there yet</h2>\n<ul class=\"partly\">\n";
        for (what, words) in &report.lacking {
            out += &format!("<li>{}: {}</li>\n", escape(what), escape(words));
        }
        out += "</ul>\n";
    }
    if !report.claims.is_empty() {
        out += "<h2 id=\"claims\">What is claimed, and what was found</h2>\n";
        claims(&mut out, &report.claims);
    }
    out += "<nav><h2>Chapters</h2><ul>\n";
    for (number, section) in report.sections.iter().enumerate() {
        out += &format!(
            "<li><a href=\"#s{number}\">{}</a></li>\n",
            escape(&section.title)
        );
    }
    out += "</ul></nav>\n";
    for (number, section) in report.sections.iter().enumerate() {
        out += &format!("<h2 id=\"s{number}\">{}</h2>\n", escape(&section.title));
        chapter(&mut out, section)?;
    }
    out += "</body></html>\n";
    Ok(out)
}

fn facts(out: &mut String, report: &Report) {
    *out += "<dl>\n";
    for (name, fact) in &report.facts {
        *out += &format!("<dt>{}</dt><dd>{}</dd>\n", escape(name), escape(fact));
    }
    *out += "</dl>\n";
}

fn claims(out: &mut String, claims: &[Claim]) {
    *out += "<table class=\"claims\"><thead><tr><th>Claim</th><th>Found</th><th>Verdict</th></tr>\
             </thead><tbody>\n";
    for claim in claims {
        let class = match claim.verdict {
            Verdict::Holds => "holds",
            Verdict::Partly => "partly",
            Verdict::Fails => "fails",
            Verdict::Open => "open",
        };
        *out += &format!(
            "<tr><td>{}</td><td>{}</td><td class=\"{class}\">{}</td></tr>\n",
            escape(&claim.claim),
            escape(&claim.found).replace("; ", "<br>"),
            claim.verdict
        );
    }
    *out += "</tbody></table>\n";
}

fn chapter(out: &mut String, section: &Section) -> Result<(), Failure> {
    for words in &section.words {
        *out += &format!("<p>{}</p>\n", escape(words));
    }
    if !section.figures.is_empty() {
        *out += "<div class=\"figures\">\n";
        for figure in &section.figures {
            *out += &plot::draw(figure)?;
            out.push('\n');
        }
        *out += "</div>\n";
    }
    section.tables.iter().for_each(|one| table(out, one));
    Ok(())
}

fn table(out: &mut String, table: &Table) {
    *out += &format!(
        "<h3>{}</h3>\n<div class=\"wide\"><table><thead><tr>",
        escape(&table.title)
    );
    for column in &table.columns {
        *out += &format!("<th>{}</th>", escape(column));
    }
    *out += "</tr></thead><tbody>\n";
    for row in &table.rows {
        *out += "<tr>";
        for field in row {
            *out += &format!("<td>{}</td>", escape(field));
        }
        *out += "</tr>\n";
    }
    *out += "</tbody></table></div>\n";
}

fn escape(text: &str) -> String {
    text.replace('&', "&amp;")
        .replace('<', "&lt;")
        .replace('>', "&gt;")
}
