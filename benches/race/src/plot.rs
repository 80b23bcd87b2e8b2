//! Bars, as SVG.

use std::fmt::Write;

use crate::figures::readable;

/// One panel; its bars have a logarithmic scale.
pub(crate) struct Chart {
    pub(crate) title: String,
    pub(crate) bars: Vec<Bar>,
}

pub(crate) struct Bar {
    pub(crate) label: String,
    pub(crate) value: f64,
    /// To be made out at a glance.
    pub(crate) ours: bool,
}

const WIDTH: f64 = 900.0;
const LABELS: f64 = 330.0;
const VALUES: f64 = 80.0;
const LINE: f64 = 22.0;
const MARGIN: f64 = 14.0;
const SHORTEST: f64 = 3.0;

pub(crate) fn svg<'a>(charts: impl Iterator<Item = &'a Chart>) -> String {
    let mut panels = String::new();
    let mut top = MARGIN;
    for chart in charts {
        top = chart.draw(&mut panels, top);
    }
    format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {top}\" font-family=\"sans-serif\" \
         font-size=\"13\">\n<rect width=\"{WIDTH}\" height=\"{top}\" fill=\"#fff\"/>\n{panels}</svg>\n"
    )
}

impl Chart {
    /// Appends itself below `top`; where the next one may begin.
    fn draw(&self, svg: &mut String, mut top: f64) -> f64 {
        let mut add = |line: String| writeln!(svg, "{line}").expect("a string to grow");
        let baseline = |top: f64| top + LINE * 0.68;
        add(format!(
            "<text x=\"{MARGIN}\" y=\"{}\" font-weight=\"bold\">{} (logarithmic)</text>",
            baseline(top),
            self.title
        ));
        let scale = self.scale();
        for bar in &self.bars {
            top += LINE;
            let (length, color) = (scale(bar.value), if bar.ours { "#c2410c" } else { "#94a3b8" });
            add(format!(
                "<text x=\"{}\" y=\"{}\" text-anchor=\"end\">{}</text>",
                LABELS - 8.0,
                baseline(top),
                bar.label
            ));
            add(format!(
                "<rect x=\"{LABELS}\" y=\"{}\" width=\"{length:.1}\" height=\"{}\" fill=\"{color}\"/>",
                top + 3.0,
                LINE - 6.0
            ));
            add(format!(
                "<text x=\"{:.1}\" y=\"{}\">{}</text>",
                LABELS + length + 6.0,
                baseline(top),
                readable(bar.value)
            ));
        }
        top + 2.0 * LINE
    }

    /// From a value to a length; the decade of the smallest one begins at 0.
    fn scale(&self) -> impl Fn(f64) -> f64 {
        let decades = |value: f64| value.max(0.1).log10();
        let values = || self.bars.iter().map(|bar| decades(bar.value));
        let least = values().fold(f64::INFINITY, f64::min).floor();
        let most = values().fold(least + 1.0, f64::max);
        let room = WIDTH - LABELS - VALUES - MARGIN;
        move |value| (room * (decades(value) - least) / (most - least)).max(SHORTEST)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chart(values: &[f64]) -> Chart {
        let bar = |value: &f64| Bar { label: "who".into(), value: *value, ours: false };
        Chart { title: "what".into(), bars: values.iter().map(bar).collect() }
    }

    #[test]
    fn each_decade_is_as_long_as_the_next_and_nothing_leaves_the_panel() {
        let chart = chart(&[10.0, 100.0, 1_000.0]);
        let scale = chart.scale();
        assert!((scale(1_000.0) - 2.0 * scale(100.0)).abs() < 1e-9);
        assert_eq!((scale(10.0), scale(0.0)), (SHORTEST, SHORTEST));
        assert!(LABELS + scale(1_000.0) + VALUES <= WIDTH);
    }

    #[test]
    fn every_bar_is_drawn_below_the_one_before() {
        let mut svg = String::new();
        let below = chart(&[1.0, 2.0]).draw(&mut svg, 0.0);
        assert_eq!(svg.matches("<rect").count(), 2);
        assert_eq!(below, 4.0 * LINE);
    }
}
