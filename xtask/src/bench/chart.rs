//! The ratios as a bar chart, each measured by its limit.

use std::fmt::Write as _;

use super::table::BenchRow;

const LABEL: f64 = 470.0;
const BAR: f64 = 300.0;
const LINE: f64 = 30.0;
const TOP: f64 = 46.0;
const WIDTH: f64 = 940.0;
/// The length of the longest bar, in limits; a longer one is cut off, and its figure says so.
const MOST: f64 = 1.5;

/// Colours for both schemes; text stays readable where a viewer knows neither.
const STYLE: &str = "text{font:13px system-ui,sans-serif;fill:#1f2328}\
.back{fill:#ffffff}.met{fill:#2da44e}.missed{fill:#cf222e}.limit{stroke:#1f2328;stroke-width:1.5}\
@media(prefers-color-scheme:dark){text{fill:#e6edf3}.back{fill:#0d1117}.met{fill:#3fb950}\
.missed{fill:#f85149}.limit{stroke:#e6edf3}}";

/// Draws the rows that have a limit.
pub(super) fn draw(rows: &[BenchRow]) -> String {
    let rows: Vec<_> = rows.iter().filter_map(|row| Some((row, row.limit?))).collect();
    let height = TOP + LINE * f64::from(u32::try_from(rows.len()).unwrap_or(u32::MAX)) + 8.0;
    let limit = LABEL + BAR / MOST;
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {height}\" width=\"{WIDTH}\" height=\"{height}\" role=\"img\" aria-label=\"Measured ratios beside their limits\">\n<style>{STYLE}</style>\n<rect class=\"back\" width=\"{WIDTH}\" height=\"{height}\"/>\n<text x=\"{limit}\" y=\"20\" text-anchor=\"middle\">limit</text>\n"
    );
    let mut y = TOP;
    for (row, most) in rows {
        bar(&mut svg, row, most, y);
        y += LINE;
    }
    // Writing to a string cannot go wrong.
    writeln!(
        svg,
        "<line class=\"limit\" x1=\"{limit}\" y1=\"26\" x2=\"{limit}\" y2=\"{}\"/>\n</svg>",
        height - 8.0
    )
    .ok();
    svg
}

fn bar(svg: &mut String, row: &BenchRow, most: f64, y: f64) {
    let share = (row.ratio / most).clamp(0.0, MOST);
    // What was not measured has no ratio; a full bar shows that it is missed.
    let length = BAR / MOST * if share.is_nan() { MOST } else { share };
    let class = if row.is_met() { "met" } else { "missed" };
    let (text, end) = (y + 15.0, LABEL + length.max((BAR / MOST) + 2.0) + 8.0);
    writeln!(
        svg,
        "<text x=\"{}\" y=\"{text}\" text-anchor=\"end\">{}</text>\n<rect class=\"{class}\" x=\"{LABEL}\" y=\"{y}\" width=\"{length:.1}\" height=\"20\" rx=\"2\"/>\n<text x=\"{end:.1}\" y=\"{text}\">{:.2} of {:.2}</text>",
        LABEL - 10.0,
        escaped(&label(row)),
        row.ratio,
        most,
    )
    .ok();
}

/// Returns what was measured and against what, without the figures of the floor.
fn label(row: &BenchRow) -> String {
    let floor = row.floor.split(": ").next().unwrap_or_default();
    let label = if floor == "–" { row.what.clone() } else { format!("{} / {floor}", row.what) };
    label.replace('`', "")
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(what: &str, ratio: f64, limit: Option<f64>) -> BenchRow {
        BenchRow {
            what: what.to_owned(),
            measured: String::new(),
            floor: "`sh -c :`: 1 ms".to_owned(),
            ratio,
            budget: String::new(),
            limit,
        }
    }

    #[test]
    fn each_bar_is_measured_by_its_limit() {
        let rows = [
            row("half", 1.0, Some(2.0)),
            row("over <&> \"quoted\"", 9.0, Some(2.0)),
            row("not measured", f64::NAN, Some(1.3)),
            row("only shown", 1.0, None),
        ];
        insta::assert_snapshot!(draw(&rows), @r#"
        <svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 940 144" width="940" height="144" role="img" aria-label="Measured ratios beside their limits">
        <style>text{font:13px system-ui,sans-serif;fill:#1f2328}.back{fill:#ffffff}.met{fill:#2da44e}.missed{fill:#cf222e}.limit{stroke:#1f2328;stroke-width:1.5}@media(prefers-color-scheme:dark){text{fill:#e6edf3}.back{fill:#0d1117}.met{fill:#3fb950}.missed{fill:#f85149}.limit{stroke:#e6edf3}}</style>
        <rect class="back" width="940" height="144"/>
        <text x="670" y="20" text-anchor="middle">limit</text>
        <text x="460" y="61" text-anchor="end">half / sh -c :</text>
        <rect class="met" x="470" y="46" width="100.0" height="20" rx="2"/>
        <text x="680.0" y="61">1.00 of 2.00</text>
        <text x="460" y="91" text-anchor="end">over &lt;&amp;&gt; &quot;quoted&quot; / sh -c :</text>
        <rect class="missed" x="470" y="76" width="300.0" height="20" rx="2"/>
        <text x="778.0" y="91">9.00 of 2.00</text>
        <text x="460" y="121" text-anchor="end">not measured / sh -c :</text>
        <rect class="missed" x="470" y="106" width="300.0" height="20" rx="2"/>
        <text x="778.0" y="121">NaN of 1.30</text>
        <line class="limit" x1="670" y1="26" x2="670" y2="136"/>
        </svg>
        "#);
    }
}
