//! Lines and bars, as SVG.

use std::fmt::Write;

/// A panel of lines, whose values have a logarithmic scale.
#[derive(Debug)]
pub struct Lines {
    pub title: String,
    /// At the bottom.
    pub across: String,
    /// The unit of the values.
    pub unit: &'static str,
    pub lines: Vec<Line>,
}

#[derive(Debug)]
pub struct Line {
    pub label: String,
    pub color: &'static str,
    /// From left to right.
    pub points: Vec<(f64, f64)>,
}

/// A panel of bars.
#[derive(Debug)]
pub struct Bars {
    pub title: String,
    pub bars: Vec<Bar>,
}

#[derive(Debug)]
pub struct Bar {
    pub label: String,
    pub color: &'static str,
    pub value: f64,
    /// What stands behind it.
    pub text: String,
}

const WIDTH: f64 = 900.0;
const MARGIN: f64 = 14.0;
const ROW: f64 = 22.0;
/// Of the panel of lines, without its title.
const HEIGHT: f64 = 220.0;
const AXIS: f64 = 80.0;
const LABELS: f64 = 330.0;
const VALUES: f64 = 150.0;

/// A picture of both, one below the other.
#[must_use]
pub fn svg(lines: &Lines, bars: &Bars) -> String {
    let mut panels = String::new();
    let top = lines.draw(&mut panels, MARGIN);
    let bottom = bars.draw(&mut panels, top + ROW);
    format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {bottom}\" font-family=\"sans-serif\" \
         font-size=\"13\">\n<rect width=\"{WIDTH}\" height=\"{bottom}\" fill=\"#fff\"/>\n{panels}</svg>\n"
    )
}

fn text(svg: &mut String, x: f64, y: f64, more: &str, what: &str) {
    writeln!(svg, "<text x=\"{x:.1}\" y=\"{y:.1}\"{more}>{what}</text>").expect("a string to grow");
}

const END: &str = " text-anchor=\"end\"";
const BOLD: &str = " font-weight=\"bold\"";

impl Lines {
    /// Appends itself below `top`; where it ends.
    fn draw(&self, svg: &mut String, top: f64) -> f64 {
        text(svg, MARGIN, top + 15.0, BOLD, &self.title);
        let mut left = AXIS;
        for line in &self.lines {
            let y = top + ROW + 6.0;
            writeln!(
                svg,
                "<rect x=\"{left:.1}\" y=\"{y:.1}\" width=\"12\" height=\"12\" fill=\"{}\"/>",
                line.color
            )
            .expect("a string to grow");
            text(svg, left + 17.0, y + 11.0, "", &line.label);
            left += 40.0 + 6.6 * line.label.chars().count() as f64;
        }
        let bottom = top + 2.5 * ROW + HEIGHT;
        let points = || self.lines.iter().flat_map(|line| &line.points);
        let last = points().map(|point| point.0).fold(1.0, f64::max);
        let decades = |value: f64| value.max(0.1).log10();
        let least = points().map(|point| decades(point.1)).fold(f64::INFINITY, f64::min).floor();
        let most = points().map(|point| decades(point.1)).fold(least + 1.0, f64::max).ceil();
        let x = |at: f64| AXIS + (WIDTH - AXIS - MARGIN) * at / last;
        let y = |value: f64| bottom - HEIGHT * (decades(value) - least) / (most - least);
        for decade in least as i32..=most as i32 {
            let value = 10_f64.powi(decade);
            let y = y(value);
            writeln!(svg, "<path d=\"M{AXIS} {y:.1}H{}\" stroke=\"#e2e8f0\"/>", WIDTH - MARGIN)
                .expect("a string to grow");
            text(svg, AXIS - 8.0, y + 4.0, END, &format!("{value} {}", self.unit));
        }
        for line in &self.lines {
            let mut path = String::new();
            for (n, &(at, value)) in line.points.iter().enumerate() {
                let letter = if n == 0 { 'M' } else { 'L' };
                write!(path, "{letter}{:.1} {:.1}", x(at), y(value)).expect("a string to grow");
            }
            writeln!(
                svg,
                "<path d=\"{path}\" fill=\"none\" stroke=\"{}\" stroke-width=\"1.6\"/>",
                line.color
            )
            .expect("a string to grow");
        }
        text(svg, AXIS, bottom + ROW, "", &self.across);
        bottom + 1.5 * ROW
    }
}

impl Bars {
    /// Appends itself below `top`; where it ends.
    fn draw(&self, svg: &mut String, mut top: f64) -> f64 {
        text(svg, MARGIN, top + 15.0, BOLD, &self.title);
        let most = self.bars.iter().map(|bar| bar.value).fold(1.0, f64::max);
        for bar in &self.bars {
            top += ROW;
            let length = (WIDTH - LABELS - VALUES - MARGIN) * bar.value / most;
            text(svg, LABELS - 8.0, top + 15.0, END, &bar.label);
            let y = top + 3.0;
            writeln!(
                svg,
                "<rect x=\"{LABELS}\" y=\"{y:.1}\" width=\"{length:.1}\" height=\"16\" fill=\"{}\"/>",
                bar.color
            )
            .expect("a string to grow");
            text(svg, LABELS + length + 6.0, top + 15.0, "", &bar.text);
        }
        top + 2.0 * ROW
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_line_and_every_bar_is_drawn_within_the_picture() {
        let line = |value| Line {
            label: "who".into(),
            color: "#000",
            points: vec![(0.0, 1.0), (9.0, value)],
        };
        let lines = Lines {
            title: "what".into(),
            across: "seconds".into(),
            unit: "ms",
            lines: vec![line(10.0), line(5_000.0)],
        };
        let bar = |value| Bar { label: "who".into(), color: "#000", value, text: "text".into() };
        let svg = svg(&lines, &Bars { title: "what".into(), bars: vec![bar(0.0), bar(7.0)] });
        assert_eq!(svg.matches("stroke-width").count(), 2);
        assert_eq!(svg.matches("height=\"16\"").count(), 2);
        // The greatest of the lines is below the top of its panel, and the scale ends at the next decade.
        assert!(svg.contains("10000 ms") && !svg.contains("100000 ms"), "{svg}");
        assert!(!svg.contains("NaN") && !svg.contains("inf"), "{svg}");
    }
}
