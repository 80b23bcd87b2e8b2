//! The timeline of a round, as SVG: faults, and for each lock its holds and waits.

use std::collections::BTreeMap;
use std::fmt::Write;

use judge::{Answer, Call, Nanos, What};

use crate::verdict::Judged;

const LABELS: f64 = 150.0;
const SECOND: f64 = 60.0;
const LANE: f64 = 7.0;
const GAP: f64 = 12.0;
const COLORS: [&str; 8] =
    ["#2563eb", "#c2410c", "#15803d", "#7e22ce", "#a16207", "#0e7490", "#be123c", "#4d7c0f"];

/// A span that is drawn.
struct Bar {
    from: Nanos,
    to: Nanos,
    color: &'static str,
    title: String,
    is_wait: bool,
}

/// Bars that overlap stand below each other.
#[derive(Default)]
struct Panel {
    bars: Vec<Bar>,
}

pub(crate) fn svg(judged: &Judged) -> String {
    let panels = panels(judged);
    let (from, to) = (judged.facts.begun, judged.facts.ended.max(judged.facts.begun + 1));
    let x = |at: Nanos| LABELS + at.clamp(from, to).saturating_sub(from) as f64 / 1e9 * SECOND;
    let mut body = String::new();
    let mut top = 30.0;
    for (name, panel) in &panels {
        top = panel.draw(&mut body, name, top, &x) + GAP;
    }
    let width = x(to) + 20.0;
    let mut marks = String::new();
    for second in 0..=(to - from) / judge::SECOND {
        let at = x(from + second * judge::SECOND);
        let color = if second % 10 == 0 { "#cbd5e1" } else { "#f1f5f9" };
        let _ = writeln!(
            marks,
            "<line x1=\"{at:.1}\" y1=\"18\" x2=\"{at:.1}\" y2=\"{top:.1}\" stroke=\"{color}\"/>"
        );
        if second % 5 == 0 {
            let _ = writeln!(marks, "<text x=\"{at:.1}\" y=\"13\">{second} s</text>");
        }
    }
    let healed = x(judged.facts.healed);
    let _ = writeln!(
        marks,
        "<line x1=\"{healed:.1}\" y1=\"18\" x2=\"{healed:.1}\" y2=\"{top:.1}\" stroke=\"#15803d\" stroke-dasharray=\"4\"/>"
    );
    for finding in judged.verdict.violations() {
        let at = x(finding.at);
        let title = escape(&format!("{}: {}", finding.check, finding.what));
        let _ = writeln!(
            marks,
            "<line x1=\"{at:.1}\" y1=\"18\" x2=\"{at:.1}\" y2=\"{top:.1}\" stroke=\"#dc2626\" stroke-width=\"2\"><title>{title}</title></line>"
        );
    }
    format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{width:.0}\" height=\"{top:.0}\" \
         font-family=\"sans-serif\" font-size=\"11\">\n<rect width=\"{width:.0}\" height=\"{top:.0}\" fill=\"#fff\"/>\n\
         {marks}{body}</svg>\n"
    )
}

/// Faults first, then each lock.
fn panels(judged: &Judged) -> BTreeMap<String, Panel> {
    let mut panels: BTreeMap<String, Panel> = BTreeMap::new();
    let mut colors: BTreeMap<String, &'static str> = BTreeMap::new();
    let mut faults: BTreeMap<&str, (Nanos, &str)> = BTreeMap::new();
    let mut asked: BTreeMap<(&str, u64), (Nanos, u64, String)> = BTreeMap::new();
    let mut held: BTreeMap<(&str, u64), (Nanos, String)> = BTreeMap::new();
    let end = judged.facts.ended;
    for event in &judged.history.events {
        let (process, at) = (event.process.as_str(), event.at);
        let slot = process.split('.').next().unwrap_or_default().to_owned();
        let next = COLORS[colors.len() % COLORS.len()];
        let color =
            if process == "nemesis" { "#dc2626" } else { *colors.entry(slot).or_insert(next) };
        let mut bar = |panel: &str, from: Nanos, title: String, is_wait: bool| {
            let bars = &mut panels.entry(panel.to_owned()).or_default().bars;
            bars.push(Bar { from, to: at, color, title, is_wait });
        };
        let mut ended = |guard: u64, how: &str| {
            if let Some((from, lock)) = held.remove(&(process, guard)) {
                bar(&lock, from, format!("{process} guard {guard}, {how}"), false);
            }
        };
        match &event.what {
            What::Begin { fault, target, .. } => drop(faults.insert(fault, (at, target))),
            What::Heal { fault } => {
                if let Some((from, target)) = faults.remove(fault.as_str()) {
                    bar(" faults", from, format!("{fault} on {target}"), false);
                }
            }
            What::Invoke { op, call: Call::Acquire { guard, locks, .. } } => {
                asked.insert((process, *op), (at, *guard, locks[0].name.clone()));
            }
            What::Invoke { call: Call::Unlock { guard }, .. } => ended(*guard, "unlocked"),
            What::Drop { guard } => ended(*guard, "dropped"),
            What::Lost { guard, why } => ended(*guard, &format!("lost: {why:?}")),
            What::Answer { op, answer } => {
                let Some((since, guard, lock)) = asked.remove(&(process, *op)) else { continue };
                let granted = matches!(answer, Answer::Granted { .. });
                if at - since > 5 * judge::MS {
                    let how = if granted { "waited" } else { "waited in vain" };
                    bar(&lock, since, format!("{process} guard {guard} {how}"), true);
                }
                if granted {
                    held.insert((process, guard), (at, lock));
                }
            }
            What::End => {
                let its = held.keys().filter(|(of, _)| *of == process).copied();
                let its: Vec<_> = its.map(|(_, guard)| guard).collect();
                for guard in its {
                    if let Some((from, lock)) = held.remove(&(process, guard)) {
                        let bars = &mut panels.entry(lock).or_default().bars;
                        let title = format!("{process} guard {guard}, killed");
                        bars.push(Bar { from, to: at.min(end), color, title, is_wait: false });
                    }
                }
            }
            _ => {}
        }
    }
    panels
}

impl Panel {
    /// Where the next may begin.
    fn draw(&self, svg: &mut String, name: &str, top: f64, x: &impl Fn(Nanos) -> f64) -> f64 {
        let _ = writeln!(
            svg,
            "<text x=\"4\" y=\"{:.1}\" font-weight=\"bold\">{}</text>",
            top + 9.0,
            escape(name.trim())
        );
        let mut bars: Vec<&Bar> = self.bars.iter().collect();
        bars.sort_by_key(|bar| (bar.is_wait, bar.from));
        let mut lanes: Vec<Nanos> = Vec::new();
        let mut waits_from = 0;
        for bar in bars {
            if bar.is_wait && waits_from == 0 {
                waits_from = lanes.len().max(1);
            }
            let first = if bar.is_wait { waits_from } else { 0 };
            let free = (first..lanes.len()).find(|lane| lanes[*lane] <= bar.from);
            let lane = free.unwrap_or_else(|| {
                lanes.resize(lanes.len().max(first) + 1, 0);
                lanes.len() - 1
            });
            lanes[lane] = bar.to;
            let (left, y) = (x(bar.from), top + lane as f64 * LANE);
            let width = (x(bar.to) - left).max(0.6);
            let opacity = if bar.is_wait { 0.25 } else { 0.9 };
            let _ = writeln!(
                svg,
                "<rect x=\"{left:.1}\" y=\"{y:.1}\" width=\"{width:.1}\" height=\"{:.1}\" fill=\"{}\" \
                 opacity=\"{opacity}\"><title>{}, {:.1} ms</title></rect>",
                LANE - 1.0,
                bar.color,
                escape(&bar.title),
                (bar.to - bar.from) as f64 / 1e6
            );
        }
        top + lanes.len().max(2) as f64 * LANE
    }
}

pub(crate) fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}
