//! The few SVG elements the picture is made of. Text is escaped here and nowhere else.

use std::fmt::Write as _;

/// Elements in drawing order.
#[derive(Debug, Default)]
pub(super) struct Canvas(String);

/// A rectangle's place and size, in pixels.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Rect {
    pub(super) x: f64,
    pub(super) y: f64,
    pub(super) w: f64,
    pub(super) h: f64,
}

impl Rect {
    pub(super) fn new(x: f64, y: f64, w: f64, h: f64) -> Self {
        Self { x, y, w, h }
    }
}

impl Canvas {
    /// A rectangle with a style class and optional further attributes.
    pub(super) fn rect(&mut self, at: Rect, class: &str, more: &str) {
        let Rect { x, y, w, h } = at;
        self.put(format_args!(
            "<rect class=\"{class}\" x=\"{x:.1}\" y=\"{y:.1}\" width=\"{w:.1}\" height=\"{h:.1}\" {more}/>"
        ));
    }

    /// A straight line.
    pub(super) fn line(&mut self, from: (f64, f64), to: (f64, f64), class: &str) {
        let ((x1, y1), (x2, y2)) = (from, to);
        self.put(format_args!("<line class=\"{class}\" x1=\"{x1:.1}\" y1=\"{y1:.1}\" x2=\"{x2:.1}\" y2=\"{y2:.1}\"/>"));
    }

    /// One line of text; `y` is its baseline.
    pub(super) fn text(&mut self, x: f64, y: f64, class: &str, text: &str) {
        self.put(format_args!("<text class=\"{class}\" x=\"{x:.1}\" y=\"{y:.1}\">{}</text>", escaped(text)));
    }

    /// A group that browsers explain when the pointer rests on it.
    pub(super) fn group(&mut self, title: &str, draw: impl FnOnce(&mut Self)) {
        self.put(format_args!("<g><title>{}</title>", escaped(title)));
        draw(self);
        self.put(format_args!("</g>"));
    }

    /// Everything of another canvas, moved.
    pub(super) fn place(&mut self, x: f64, y: f64, other: &Self) {
        self.put(format_args!("<g transform=\"translate({x:.1},{y:.1})\">"));
        self.0.push_str(&other.0);
        self.put(format_args!("</g>"));
    }

    /// The finished file.
    pub(super) fn document(&self, width: f64, height: f64, title: &str, style: &str) -> String {
        let title = escaped(title);
        format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{width:.0}\" height=\"{height:.0}\" \
             viewBox=\"0 0 {width:.0} {height:.0}\" role=\"img\">\n<title>{title}</title>\n<style>{style}</style>\n\
             <rect width=\"100%\" height=\"100%\" fill=\"#ffffff\"/>\n{}</svg>\n",
            self.0
        )
    }

    fn put(&mut self, element: std::fmt::Arguments<'_>) {
        // Writing to a `String` cannot fail.
        let _ = writeln!(self.0, "{element}");
    }
}

/// Model names and file names come from outside. Control characters have no place in XML.
fn escaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            c if c.is_control() => out.push('\u{fffd}'),
            c => out.push(c),
        }
    }
    out
}

/// About how wide a text is at a size in pixels; a little generous, because fonts differ.
pub(super) fn width(text: &str, size: f64) -> f64 {
    let letters = u32::try_from(text.chars().count()).unwrap_or(u32::MAX);
    f64::from(letters) * size * 0.58
}

/// The text, cut with an ellipsis where it would be wider than `room`.
pub(super) fn fitted(text: &str, size: f64, room: f64) -> String {
    if width(text, size) <= room {
        return text.to_owned();
    }
    let mut cut: String = text.to_owned();
    while cut.pop().is_some() && width(&cut, size) + size * 0.58 > room {}
    cut.trim_end().to_owned() + "…"
}
