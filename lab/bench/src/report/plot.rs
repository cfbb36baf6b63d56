//! One picture per report: ours in full colour, the paper's in grey. The vertical axis is
//! logarithmic, since a paper's overload rows lie a thousand times above everything else.

use std::collections::BTreeMap;

use plotters::coord::combinators::LogCoord;
use plotters::coord::types::RangedCoordf64;
use plotters::prelude::*;

use super::row::Row;
use crate::error::Error;

const SIZE: (u32, u32) = (860, 480);
const FONT: (&str, u32) = ("sans-serif", 14);

type Points = Vec<(f64, f64)>;
type Plane = Cartesian2d<RangedCoordf64, LogCoord<f64>>;
type Chart<'a, 'b> = ChartContext<'a, SVGBackend<'b>, Plane>;

/// What a picture shows: columns of the rows.
pub(crate) struct Plot {
    /// The horizontal column.
    pub(crate) x: &'static str,
    /// The vertical column.
    pub(crate) y: &'static str,
    /// The column whose values make the lines, such as `broker`.
    pub(crate) series: Option<&'static str>,
}

impl Plot {
    /// The picture as SVG text.
    ///
    /// # Errors
    /// [`Error::Report`] if it cannot be drawn.
    pub(crate) fn draw(&self, title: &str, ours: &[Row], paper: &[Row]) -> Result<String, Error> {
        let mut text = String::new();
        self.draw_into(&mut text, title, [&self.lines(ours), &self.lines(paper)])
            .map_err(|error| Error::Report(format!("the plot of {}: {error}", self.y)))?;
        Ok(text)
    }

    fn lines(&self, rows: &[Row]) -> BTreeMap<String, Points> {
        let mut lines: BTreeMap<String, Points> = BTreeMap::new();
        for row in rows {
            let name = self.series.and_then(|series| row.get(series));
            let name = name.map_or_else(String::new, |value| value.to_text());
            if let (Some(x), Some(y)) = (row.number(self.x), row.number(self.y))
                && y > 0.0
            {
                lines.entry(name).or_default().push((x, y));
            }
        }
        for points in lines.values_mut() {
            points.sort_by(|a, b| a.0.total_cmp(&b.0));
        }
        lines
    }

    fn draw_into(
        &self,
        text: &mut String,
        title: &str,
        [ours, paper]: [&BTreeMap<String, Points>; 2],
    ) -> Result<(), DrawingAreaErrorKind<std::io::Error>> {
        let area = SVGBackend::with_string(text, SIZE).into_drawing_area();
        area.fill(&WHITE)?;
        let (right, bottom, top) = extent([ours, paper]);
        let mut chart = ChartBuilder::on(&area)
            .caption(title, ("sans-serif", 18))
            .margin(16)
            .x_label_area_size(44)
            .y_label_area_size(64)
            .build_cartesian_2d(0.0..right, (bottom..top).log_scale())?;
        chart
            .configure_mesh()
            .x_desc(self.x)
            .y_desc(self.y)
            .label_style(FONT)
            .draw()?;
        for (whose, lines) in [("paper", paper), ("ours", ours)] {
            for (number, (name, points)) in lines.iter().enumerate() {
                let label = self.label(whose, name);
                line(&mut chart, points, (label, colour(whose, number)))?;
            }
        }
        chart
            .configure_series_labels()
            .background_style(WHITE.mix(0.8))
            .border_style(BLACK)
            .label_font(FONT)
            .position(SeriesLabelPosition::UpperLeft)
            .draw()?;
        area.present()
    }

    fn label(&self, whose: &str, name: &str) -> String {
        match self.series {
            Some("broker") => format!("{whose}, broker {name}"),
            Some(_) if !name.is_empty() => format!("{whose}, {name}"),
            _ => whose.to_owned(),
        }
    }
}

fn line(
    chart: &mut Chart<'_, '_>,
    points: &Points,
    (label, colour): (String, RGBColor),
) -> Result<(), DrawingAreaErrorKind<std::io::Error>> {
    chart
        .draw_series(LineSeries::new(
            points.iter().copied(),
            colour.stroke_width(2),
        ))?
        .label(label)
        .legend(move |(x, y)| PathElement::new([(x, y), (x + 18, y)], colour.stroke_width(2)));
    chart.draw_series(
        points
            .iter()
            .map(|point| Circle::new(*point, 3, colour.filled())),
    )?;
    Ok(())
}

/// The paper's lines in shades of grey, ours in four colours that also differ in brightness.
fn colour(whose: &str, number: usize) -> RGBColor {
    const OURS: [RGBColor; 4] = [
        RGBColor(0, 90, 160),
        RGBColor(214, 96, 0),
        RGBColor(0, 140, 96),
        RGBColor(160, 30, 110),
    ];
    if whose == "ours" {
        return OURS[number % OURS.len()];
    }
    let shade = 110 + (number % 4) as u8 * 30;
    RGBColor(shade, shade, shade)
}

/// The right end of the horizontal axis, and both ends of the vertical one.
fn extent(lines: [&BTreeMap<String, Points>; 2]) -> (f64, f64, f64) {
    let points = || lines.into_iter().flat_map(BTreeMap::values).flatten();
    let right = points().map(|point| point.0).fold(1.0, f64::max);
    let positive = || points().map(|point| point.1).filter(|y| *y > 0.0);
    let bottom = positive().fold(f64::INFINITY, f64::min).min(1e9);
    let top = positive().fold(bottom, f64::max);
    (right * 1.05, bottom / 2.0, top * 2.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_plot_names_both_sides_and_skips_rows_without_numbers() {
        let plot = Plot {
            x: "users",
            y: "latency_avg_ms",
            series: Some("broker"),
        };
        let row = |users: u64, broker: u64, latency: f64| {
            Row::default()
                .with("users", users)
                .with("broker", broker)
                .with("latency_avg_ms", latency)
        };
        let ours = [
            row(480, 1, 0.2),
            row(960, 1, 0.3),
            Row::default().with("users", 1_u64),
        ];
        let paper = [row(480, 1, 3.3), row(960, 1, 2.98)];
        let svg = plot.draw("Meetings", &ours, &paper).expect("a picture");
        assert!(svg.starts_with("<svg"));
        assert!(svg.contains("ours, broker 1") && svg.contains("paper, broker 1"));
    }

    #[test]
    fn the_axes_hold_an_overload_row_and_leave_zeros_out() {
        let plot = Plot {
            x: "x",
            y: "y",
            series: None,
        };
        let row = |x: u64, y: f64| Row::default().with("x", x).with("y", y);
        let ours = plot.lines(&[row(1, 0.0), row(2, 2.0)]);
        let paper = plot.lines(&[row(1, 5.0), row(3, 2290.0)]);
        let (right, bottom, top) = extent([&ours, &paper]);
        assert!(right > 3.0 && (0.5..2.0).contains(&bottom) && top > 2290.0);
        assert!(extent([&BTreeMap::new(), &BTreeMap::new()]).1 > 0.0);
    }
}
