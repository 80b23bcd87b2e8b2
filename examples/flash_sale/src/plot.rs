//! Bars, as SVG.

use std::fmt::Write;

/// One bar.
#[derive(Clone, Debug)]
pub(crate) struct Bar {
    pub(crate) label: String,
    pub(crate) value: f64,
    /// Of the second color.
    pub(crate) second: bool,
}

const WIDTH: f64 = 760.0;
const MARGIN: f64 = 14.0;
const ROW: f64 = 24.0;
const LABELS: f64 = 190.0;
const VALUES: f64 = 110.0;

/// A picture of bars, one below the other, with the value and this unit behind each.
pub(crate) fn svg(title: &str, unit: &str, bars: &[Bar]) -> String {
    let most = bars.iter().map(|bar| bar.value).fold(1.0, f64::max);
    let height = MARGIN + ROW * (bars.len() as f64 + 1.5);
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {height}\" font-family=\"sans-serif\" \
         font-size=\"13\">\n<rect width=\"{WIDTH}\" height=\"{height}\" fill=\"#fff\"/>\n\
         <text x=\"{MARGIN}\" y=\"{:.1}\" font-weight=\"bold\">{title}</text>\n",
        MARGIN + 13.0
    );
    let mut top = MARGIN + ROW;
    for Bar { label, value, second } in bars {
        let length = (WIDTH - LABELS - VALUES - MARGIN) * value / most;
        let color = if *second { "#c2410c" } else { "#2563eb" };
        let (bar, text) = (top + 3.0, top + 16.0);
        let end = LABELS + length + 6.0;
        writeln!(
            svg,
            "<text x=\"{:.1}\" y=\"{text:.1}\" text-anchor=\"end\">{label}</text>\n\
             <rect x=\"{LABELS}\" y=\"{bar:.1}\" width=\"{length:.1}\" height=\"17\" fill=\"{color}\"/>\n\
             <text x=\"{end:.1}\" y=\"{text:.1}\">{value:.0} {unit}</text>",
            LABELS - 8.0,
        )
        .expect("a string to grow");
        top += ROW;
    }
    svg + "</svg>\n"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_bar_is_as_long_as_its_value_beside_the_longest() {
        let bar = |value, second| Bar { label: "who".into(), value, second };
        let svg = svg("what", "sales/s", &[bar(50.0, false), bar(200.0, true), bar(0.0, true)]);
        let lengths: Vec<f64> = svg
            .split("<rect ")
            .filter(|rect| rect.contains("height=\"17\""))
            .map(|rect| rect.split("width=\"").nth(1).unwrap().split('"').next().unwrap())
            .map(|length| length.parse().unwrap())
            .collect();
        assert_eq!(lengths.len(), 3);
        assert!((lengths[1] / lengths[0] - 4.0).abs() < 0.01, "{lengths:?}");
        assert!(lengths[2] < 0.01, "{lengths:?}");
        assert!(svg.contains(">200 sales/s<"), "{svg}");
    }

    #[test]
    fn no_bar_at_all_is_a_picture() {
        assert!(!svg("what", "sales/s", &[]).contains("NaN"));
    }
}
