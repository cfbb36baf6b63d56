//! Figures as SVG.

use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};
use sangam_sim::study::{Figure, Line, Marks};

use crate::program::Failure;

const SIZE: (u32, u32) = (560, 340);
const FONT: (&str, u32) = ("sans-serif", 13);
/// Fifteen solutions have to fit into a figure.
const LEGEND: (&str, u32) = ("sans-serif", 10);
/// The width of a group of bars, which are one apart.
const GROUP: f64 = 0.85;

/// Colours that also differ for the colour-blind (Okabe & Ito, 2008), by solution, so that a
/// solution has one colour in all figures; to the letter it has the same, dotted.
const COLOURS: [(&str, RGBColor); 7] = [
    ("DRT-BF", RGBColor(153, 153, 153)),
    ("DRT-WM", RGBColor(60, 60, 60)),
    ("VIA-BF", RGBColor(230, 159, 0)),
    ("VIA-WM", RGBColor(213, 94, 0)),
    ("VCR-WM", RGBColor(0, 114, 178)),
    ("VCRl-WM", RGBColor(204, 121, 167)),
    ("ours", RGBColor(0, 158, 115)),
];
/// What the letter of the paper is marked by behind a receiver, and how its line is drawn: pixels
/// drawn and left out.
const LETTERS: [(&str, (i32, i32)); 2] = [("-WMl", (6, 3)), ("-WMlw", (2, 3))];
/// How much of the colour is left to both of them.
const PALER: [f64; 2] = [0.7, 0.45];

/// The picture as SVG text.
///
/// # Errors
/// If it cannot be drawn.
pub(super) fn draw(figure: &Figure) -> Result<String, Failure> {
    let mut text = String::new();
    let drawn = draw_into(&mut text, figure);
    drawn.map_err(|error| Failure(format!("figure {}: {error}", figure.name)))?;
    // It scales with the page.
    let fixed = format!("width=\"{}\" height=\"{}\" ", SIZE.0, SIZE.1);
    Ok(text.replacen(&fixed, "", 1))
}

fn draw_into(
    text: &mut String,
    figure: &Figure,
) -> Result<(), DrawingAreaErrorKind<std::io::Error>> {
    let area = SVGBackend::with_string(text, SIZE).into_drawing_area();
    area.fill(&WHITE)?;
    let ((mut left, mut right), (bottom, top)) = extent(&figure.lines);
    let mut across = 10;
    if let Marks::Bars(names) = &figure.marks {
        // Groups have names in place of numbers, and the last one leaves room for the legend.
        (left, right) = (-0.6, names.len() as f64 + 0.3);
        across = 0;
    }
    let mut chart = ChartBuilder::on(&area)
        .caption(&figure.title, ("sans-serif", 15))
        .margin(8)
        .x_label_area_size(40)
        .y_label_area_size(52)
        .build_cartesian_2d(left..right, bottom..top)?;
    chart
        .configure_mesh()
        .x_desc(&figure.x)
        .x_labels(across)
        .y_desc(&figure.y)
        .x_label_formatter(&|x| number(*x, right - left))
        .y_label_formatter(&|y| number(*y, top - bottom))
        .label_style(FONT)
        .light_line_style(WHITE)
        .draw()?;
    for (number, line) in figure.lines.iter().enumerate() {
        let colour = colour(&line.label, number).mix(shade(&line.label));
        let points = line.points.iter().copied();
        let style = colour.stroke_width(2);
        let drawn = match (&figure.marks, dash(&line.label)) {
            (Marks::Lines, None) => chart.draw_series(LineSeries::new(points, style))?,
            (Marks::Lines, Some((on, off))) => {
                chart.draw_series(DashedLineSeries::new(points, on, off, style))?
            }
            (Marks::Dots, _) => {
                chart.draw_series(points.map(|at| Circle::new(at, 3, colour.filled())))?
            }
            (Marks::Bars(_), _) => {
                let bar = |(group, top): (f64, f64)| {
                    let width = GROUP / figure.lines.len().max(1) as f64;
                    let left = group - GROUP / 2.0 + width * number as f64;
                    Rectangle::new([(left, 0.0), (left + width, top)], colour.filled())
                };
                chart.draw_series(points.map(bar))?
            }
        };
        drawn
            .label(&line.label)
            .legend(move |(x, y)| PathElement::new([(x, y), (x + 16, y)], colour.stroke_width(2)));
    }
    if let Marks::Bars(names) = &figure.marks {
        let centred = TextStyle::from(FONT).pos(Pos::new(HPos::Center, VPos::Top));
        for (group, name) in names.iter().enumerate() {
            let (x, y) = chart.backend_coord(&(group as f64, 0.0));
            area.draw_text(name, &centred, (x, y + 5))?;
        }
    }
    chart
        .configure_series_labels()
        .background_style(WHITE.mix(0.8))
        .label_font(LEGEND)
        .position(legend(figure))
        .draw()?;
    area.present()
}

/// Where nothing is drawn.
fn legend(figure: &Figure) -> SeriesLabelPosition {
    match figure.marks {
        Marks::Lines if figure.y.starts_with('%') => SeriesLabelPosition::LowerRight,
        Marks::Bars(_) => SeriesLabelPosition::UpperRight,
        Marks::Lines | Marks::Dots => SeriesLabelPosition::UpperLeft,
    }
}

/// How much of its colour a solution has.
fn shade(label: &str) -> f64 {
    let mut shades = LETTERS.iter().zip(PALER);
    let paler = shades.find(|((end, _), _)| label.ends_with(end));
    paler.map_or(1.0, |(_, shade)| shade)
}

/// How the line of a solution to the letter is drawn.
fn dash(label: &str) -> Option<(i32, i32)> {
    let mut letters = LETTERS.iter();
    let letter = letters.find(|(end, _)| label.ends_with(end));
    letter.map(|(_, dash)| *dash)
}

fn number(value: f64, range: f64) -> String {
    if range > 10.0 {
        format!("{value:.0}")
    } else {
        format!("{value:.1}")
    }
}

fn colour(label: &str, number: usize) -> RGBColor {
    // To the letter it is the solution's still.
    let plain = LETTERS.iter().find_map(|(end, _)| label.strip_suffix(end));
    let plain = plain.map(|solution| format!("{solution}-WM"));
    let own = COLOURS
        .iter()
        .find(|(name, _)| *name == plain.as_deref().unwrap_or(label));
    let ours = label
        .strip_prefix("ours-")
        .map(|_| &COLOURS[COLOURS.len() - 1]);
    // The greys are for Direct alone.
    own.or(ours).unwrap_or(&COLOURS[2 + number % 4]).1
}

type Range = (f64, f64);

fn extent(lines: &[Line]) -> (Range, Range) {
    let points = || lines.iter().flat_map(|line| &line.points);
    let range = |values: &mut dyn Iterator<Item = f64>| {
        let (low, high) = values.fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), value| {
            (low.min(value), high.max(value))
        });
        if high > low {
            (low, high)
        } else if low.is_finite() {
            (low - 1.0, low + 1.0)
        } else {
            (0.0, 1.0)
        }
    };
    let x = range(&mut points().map(|point| point.0));
    let y = range(&mut points().map(|point| point.1));
    (x, (y.0.min(0.0), y.1))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_figure_without_points_is_drawn_all_the_same() {
        let figure = Figure {
            title: "none".to_owned(),
            ..Figure::default()
        };
        assert!(draw(&figure).is_ok_and(|text| text.starts_with("<svg")));
    }

    #[test]
    fn bars_stand_over_the_names_of_their_groups() {
        let lines = ["DRT-WM", "VCR-WMl"].map(|label| Line {
            label: label.to_owned(),
            points: vec![(0.0, 1.0), (1.0, 2.0)],
        });
        let figure = Figure {
            marks: Marks::Bars(vec!["Athens".to_owned(), "Kampala".to_owned()]),
            lines: lines.to_vec(),
            ..Figure::default()
        };
        let text = draw(&figure).unwrap_or_default();
        assert!(
            text.contains("Athens") && text.contains("Kampala"),
            "{text}"
        );
        // Two bars of each colour, and frames.
        assert_eq!(text.matches("fill=\"#0072B2\"").count(), 2, "{text}");
    }

    #[test]
    fn lines_are_named_and_texts_escaped() {
        let figure = Figure {
            title: "a<b".to_owned(),
            lines: vec![Line {
                label: "VCR-WM".to_owned(),
                points: vec![(1.0, 2.0), (2.0, 3.0)],
            }],
            ..Figure::default()
        };
        let text = draw(&figure).unwrap_or_default();
        assert!(text.contains("VCR-WM") && text.contains("a&lt;b"), "{text}");
    }
}
