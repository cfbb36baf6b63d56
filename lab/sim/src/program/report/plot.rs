//! Figures as SVG.

use plotters::prelude::*;
use sangam_sim::study::{Figure, Line};

use crate::program::Failure;

const SIZE: (u32, u32) = (560, 340);
const FONT: (&str, u32) = ("sans-serif", 13);

/// Colours that also differ for the colour-blind (Okabe & Ito, 2008), by solution, so that a
/// solution has one colour in all figures.
const COLOURS: [(&str, RGBColor); 6] = [
    ("DRT-BF", RGBColor(153, 153, 153)),
    ("DRT-WM", RGBColor(60, 60, 60)),
    ("VIA-BF", RGBColor(230, 159, 0)),
    ("VIA-WM", RGBColor(213, 94, 0)),
    ("VCR-WM", RGBColor(0, 114, 178)),
    ("ours", RGBColor(0, 158, 115)),
];

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
    let ((left, right), (bottom, top)) = extent(&figure.lines);
    let mut chart = ChartBuilder::on(&area)
        .caption(&figure.title, ("sans-serif", 15))
        .margin(8)
        .x_label_area_size(40)
        .y_label_area_size(52)
        .build_cartesian_2d(left..right, bottom..top)?;
    chart
        .configure_mesh()
        .x_desc(&figure.x)
        .y_desc(&figure.y)
        .x_label_formatter(&|x| number(*x, right - left))
        .y_label_formatter(&|y| number(*y, top - bottom))
        .label_style(FONT)
        .light_line_style(WHITE)
        .draw()?;
    for (number, line) in figure.lines.iter().enumerate() {
        let colour = colour(&line.label, number);
        chart
            .draw_series(LineSeries::new(
                line.points.iter().copied(),
                colour.stroke_width(2),
            ))?
            .label(&line.label)
            .legend(move |(x, y)| PathElement::new([(x, y), (x + 16, y)], colour.stroke_width(2)));
    }
    chart
        .configure_series_labels()
        .background_style(WHITE.mix(0.8))
        .label_font(FONT)
        .position(if figure.y.starts_with('%') {
            SeriesLabelPosition::LowerRight
        } else {
            SeriesLabelPosition::UpperLeft
        })
        .draw()?;
    area.present()
}

fn number(value: f64, range: f64) -> String {
    if range > 10.0 {
        format!("{value:.0}")
    } else {
        format!("{value:.1}")
    }
}

fn colour(label: &str, number: usize) -> RGBColor {
    let own = COLOURS.iter().find(|(name, _)| *name == label);
    // The greys are for Direct alone.
    own.unwrap_or(&COLOURS[2 + number % 4]).1
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
