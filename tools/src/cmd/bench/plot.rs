//! A plot as SVG: lines over a scale of steps or of numbers, with units, and a legend below.

use std::fmt::Write;

const WIDTH: f64 = 470.0;
const LEFT: f64 = 64.0;
const RIGHT: f64 = 16.0;
const TOP: f64 = 34.0;
const HEIGHT: f64 = 210.0;
/// From the plot's foot to the legend, with the axis' labels in between.
const FOOT: f64 = 56.0;
const LEGEND_LINE: f64 = 18.0;
/// Of a character in the legend: more than what sans-serif fonts take on average.
const CHARACTER: f64 = 6.8;

/// What runs from left to right.
#[derive(Clone, Debug)]
pub(crate) enum Across {
    /// One step for each of some values, at equal distances.
    Steps(Vec<String>),
    /// From 0 to so much.
    Number(f64),
}

/// Colour and dashes are given by the caller, so that a runner looks the same in all plots.
#[derive(Clone, Debug)]
pub(crate) struct Series {
    pub(crate) name: String,
    pub(crate) colour: &'static str,
    pub(crate) dashed: bool,
    /// With a mark at each point.
    pub(crate) marks: bool,
    /// Of steps, the first number counts them from 0.
    pub(crate) points: Vec<(f64, f64)>,
}

#[derive(Clone, Debug)]
pub(crate) struct Plot {
    pub(crate) title: String,
    pub(crate) across_name: String,
    pub(crate) up_name: String,
    pub(crate) across: Across,
    pub(crate) series: Vec<Series>,
    /// How a value is written beside the vertical axis, which is logarithmic.
    pub(crate) format: fn(f64) -> String,
}

impl Plot {
    /// The plot; nothing where there is nothing to show.
    pub(crate) fn svg(&self) -> Option<String> {
        let scale = Log::over(self.series.iter().flat_map(|series| &series.points).map(|(_, value)| *value))?;
        let mut svg = String::new();
        let (legend, lines) = self.legend();
        let height = TOP + HEIGHT + FOOT + LEGEND_LINE * f64::from(lines);
        let title = escape(&self.title);
        let _ = write!(
            svg,
            r#"<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" width="{WIDTH}" height="{height}" role="img" aria-label="{title}" font-family="sans-serif" font-size="11">"#,
        );
        let _ = write!(svg, r##"<rect width="{WIDTH}" height="{height}" fill="#ffffff"/>"##);
        text(&mut svg, WIDTH / 2.0, 16.0, "middle", "font-size=\"13\" font-weight=\"bold\"", &self.title);
        self.up_axis(&mut svg, &scale);
        self.across_axis(&mut svg);
        for series in &self.series {
            self.line(&mut svg, &scale, series);
        }
        svg.push_str(&legend);
        svg.push_str("</svg>");
        Some(svg)
    }

    fn x(&self, value: f64) -> f64 {
        let width = WIDTH - LEFT - RIGHT;
        match &self.across {
            // Half a step is left on both sides.
            Across::Steps(steps) => LEFT + width * (value + 0.5) / to_f64(steps.len().max(1)),
            Across::Number(end) => LEFT + width * (value / end.max(1e-9)).clamp(0.0, 1.0),
        }
    }

    fn up_axis(&self, svg: &mut String, scale: &Log) {
        for value in scale.ticks() {
            let y = scale.y(value);
            let _ = write!(svg, r##"<path d="M{LEFT:.1} {y:.1}H{:.1}" stroke="#dddddd"/>"##, WIDTH - RIGHT);
            text(svg, LEFT - 6.0, y + 4.0, "end", "", &(self.format)(value));
        }
        let (x, y) = (12.0, TOP + HEIGHT / 2.0);
        let turn = format!("transform=\"rotate(-90 {x} {y})\"");
        text(svg, x, y, "middle", &turn, &self.up_name);
    }

    fn across_axis(&self, svg: &mut String) {
        let foot = TOP + HEIGHT;
        let _ = write!(
            svg,
            r##"<path d="M{LEFT:.1} {TOP:.1}V{foot:.1}H{:.1}" fill="none" stroke="#333333"/>"##,
            WIDTH - RIGHT
        );
        let ticks: Vec<(f64, String)> = match &self.across {
            Across::Steps(steps) => {
                steps.iter().enumerate().map(|(index, step)| (to_f64(index), step.clone())).collect()
            }
            Across::Number(end) => linear_ticks(*end),
        };
        for (value, label) in ticks {
            let x = self.x(value);
            let _ = write!(svg, r##"<path d="M{x:.1} {foot:.1}v4" stroke="#333333"/>"##);
            text(svg, x, foot + 16.0, "middle", "", &label);
        }
        text(svg, f64::midpoint(LEFT, WIDTH - RIGHT), foot + 34.0, "middle", "", &self.across_name);
    }

    fn line(&self, svg: &mut String, scale: &Log, series: &Series) {
        let Series { colour, dashed, marks, points, .. } = series;
        let shown: Vec<(f64, f64)> = points
            .iter()
            .filter(|(_, value)| is_shown(*value))
            .map(|(across, value)| (self.x(*across), scale.y(*value)))
            .collect();
        let path: Vec<String> = shown.iter().map(|(x, y)| format!("{x:.1} {y:.1}")).collect();
        let dashes = if *dashed { " stroke-dasharray=\"5 3\"" } else { "" };
        if path.len() > 1 {
            let path = path.join("L");
            let _ = write!(
                svg,
                r#"<path d="M{path}" fill="none" stroke="{colour}" stroke-width="1.6"{dashes}/>"#
            );
        }
        if *marks || path.len() == 1 {
            for (x, y) in shown {
                let _ = write!(svg, r#"<circle cx="{x:.1}" cy="{y:.1}" r="3" fill="{colour}"/>"#);
            }
        }
    }

    /// The legend, and in how many lines.
    fn legend(&self) -> (String, u16) {
        let (mut svg, mut x, mut line) = (String::new(), LEFT, 0_u16);
        for series in &self.series {
            let width = 34.0 + CHARACTER * to_f64(series.name.chars().count());
            if x + width > WIDTH - RIGHT && x > LEFT {
                (x, line) = (LEFT, line + 1);
            }
            let y = TOP + HEIGHT + FOOT + LEGEND_LINE * f64::from(line);
            let dashes = if series.dashed { " stroke-dasharray=\"5 3\"" } else { "" };
            let _ = write!(
                svg,
                r#"<path d="M{x:.1} {y:.1}h20" stroke="{}" stroke-width="2"{dashes}/>"#,
                series.colour
            );
            text(&mut svg, x + 25.0, y + 4.0, "start", "", &series.name);
            x += width;
        }
        (svg, line + 1)
    }
}

/// A logarithmic scale over what is shown.
struct Log {
    low: f64,
    high: f64,
}

impl Log {
    /// From and to a step of 1, 2, 5; `None`: nothing can be shown.
    fn over(values: impl Iterator<Item = f64>) -> Option<Self> {
        let shown = values.filter(|value| is_shown(*value));
        let (low, high) =
            shown.fold((f64::INFINITY, 0.0_f64), |(low, high), value| (low.min(value), high.max(value)));
        if high <= 0.0 {
            return None;
        }
        let below = steps(low).into_iter().rev().find(|step| *step <= low).unwrap_or(low);
        let above = steps(high).into_iter().find(|step| *step >= high && *step > below).unwrap_or(high * 2.0);
        Some(Self { low: below, high: above })
    }

    fn y(&self, value: f64) -> f64 {
        let part = (value / self.low).ln() / (self.high / self.low).ln();
        TOP + HEIGHT * (1.0 - part)
    }

    /// Steps of 1, 2, 5, or powers of ten where those would be too many.
    fn ticks(&self) -> Vec<f64> {
        let decades = (self.high / self.low).log10();
        let mut ticks = Vec::new();
        let mut power = 10_f64.powf(self.low.log10().floor());
        while power <= self.high * 1.001 {
            let factors: &[f64] = if decades > 3.2 { &[1.0] } else { &[1.0, 2.0, 5.0] };
            ticks.extend(factors.iter().map(|factor| factor * power));
            power *= 10.0;
        }
        ticks.retain(|tick| (self.low * 0.999..=self.high * 1.001).contains(tick));
        ticks
    }
}

/// Steps of 1, 2, 5 around a value.
fn steps(value: f64) -> Vec<f64> {
    let power = 10_f64.powf(value.log10().floor());
    [0.5, 1.0, 2.0, 5.0, 10.0, 20.0].into_iter().map(|factor| factor * power).collect()
}

/// Five or so from 0 on.
fn linear_ticks(end: f64) -> Vec<(f64, String)> {
    if !is_shown(end) {
        return vec![(0.0, "0".into())];
    }
    let step = steps(end / 5.0).into_iter().find(|step| *step >= end / 5.0).unwrap_or(end);
    let digits: usize =
        (0..9_u8).find(|digits| step * 10_f64.powi((*digits).into()) >= 0.999).unwrap_or(9).into();
    let mut ticks = Vec::new();
    let mut value = 0.0;
    while value <= end * 1.001 {
        ticks.push((value, format!("{value:.digits$}")));
        value += step;
    }
    ticks
}

/// What a logarithmic scale has a place for.
fn is_shown(value: f64) -> bool {
    value.is_finite() && value > 0.0
}

fn text(svg: &mut String, x: f64, y: f64, anchor: &str, more: &str, content: &str) {
    let content = escape(content);
    let _ = write!(
        svg,
        r##"<text x="{x:.1}" y="{y:.1}" text-anchor="{anchor}" fill="#222222" {more}>{content}</text>"##
    );
}

/// For text and for attributes.
pub(crate) fn escape(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '"' => escaped.push_str("&quot;"),
            '\'' => escaped.push_str("&#39;"),
            c if c.is_control() => escaped.push(' '),
            c => escaped.push(c),
        }
    }
    escaped
}

#[allow(clippy::cast_precision_loss, reason = "a place in a picture")]
fn to_f64(value: usize) -> f64 {
    value as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scales_begin_and_end_at_round_steps() {
        let scale = Log::over([3.0, 180.0, f64::NAN, -1.0].into_iter()).unwrap();
        let ticks: Vec<String> = scale.ticks().iter().map(|tick| format!("{tick:.0}")).collect();
        assert_eq!(ticks, ["2", "5", "10", "20", "50", "100", "200"]);
        assert!((scale.y(2.0) - TOP - HEIGHT).abs() < 1e-6 && (scale.y(200.0) - TOP).abs() < 1e-6);
        let many = Log::over([1.0, 99_999.0].into_iter()).unwrap().ticks();
        assert_eq!(many.len(), 6);
        let single = Log::over([7.0].into_iter()).unwrap();
        assert!(single.high > single.low && single.ticks().len() >= 2);
        assert!(Log::over([0.0, f64::INFINITY].into_iter()).is_none());
    }

    #[test]
    fn ticks_across_are_few_and_round() {
        let labels = |end| linear_ticks(end).into_iter().map(|(_, label)| label).collect::<Vec<_>>();
        assert_eq!(labels(2.05), ["0.0", "0.5", "1.0", "1.5", "2.0"]);
        assert_eq!(labels(30.0), ["0", "10", "20", "30"]);
        assert_eq!(labels(0.0), ["0"]);
    }

    #[test]
    fn what_has_no_place_is_left_out_and_text_is_escaped() {
        let series = |points: &[(f64, f64)]| Series {
            name: "a < b".into(),
            colour: "#000000",
            dashed: false,
            marks: true,
            points: points.to_vec(),
        };
        let mut plot = Plot {
            title: "t & \"u\"".into(),
            across_name: "x".into(),
            up_name: "y".into(),
            across: Across::Steps(vec!["1".into(), "2".into()]),
            series: vec![series(&[(0.0, 10.0), (1.0, f64::NAN)])],
            format: |value| format!("{value}"),
        };
        let svg = plot.svg().unwrap();
        assert_eq!(svg.matches("<circle").count(), 1);
        assert!(svg.contains("t &amp; &quot;u&quot;") && svg.contains("a &lt; b"));
        assert!(!svg.contains("NaN") && !svg.contains("inf"));
        plot.series = vec![series(&[(0.0, 0.0)])];
        assert!(plot.svg().is_none());
    }
}
