//! Colours that people who see few colours can tell apart, and what else tells ranks apart.
//!
//! The nine colours are Paul Tol's "muted" scheme (<https://sronpersonalpages.nl/~pault/>), chosen to be distinct in all
//! kinds of colour-blindness. From the tenth rank on the colours come again with a bar; every square also carries its
//! rank's number, so the picture can be read in black and white.

/// One rank's looks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Paint {
    /// The colour of its cores.
    pub(super) fill: &'static str,
    /// The colour of a number on it.
    pub(super) ink: &'static str,
    /// A bar marks the second round through the colours, two bars all further ones.
    pub(super) bars: usize,
}

/// Ink on light colours.
pub(super) const DARK: &str = "#000000";
const LIGHT: &str = "#ffffff";

const MUTED: [(&str, &str); 9] = [
    ("#88ccee", DARK),
    ("#332288", LIGHT),
    ("#ddcc77", DARK),
    ("#117733", LIGHT),
    ("#cc6677", DARK),
    ("#44aa99", DARK),
    ("#882255", LIGHT),
    ("#999933", DARK),
    ("#aa4499", LIGHT),
];

/// The looks of the rank with this number on the node.
pub(super) fn paint(rank: usize) -> Paint {
    let (fill, ink) = MUTED.get(rank % MUTED.len()).copied().unwrap_or(("#dddddd", DARK));
    Paint { fill, ink, bars: rank / MUTED.len() }
}

/// Everything that is not a rank's colour.
pub(super) const STYLE: &str = "
text{font-family:'DejaVu Sans','Helvetica Neue',Arial,sans-serif;fill:#222}
.h1{font-size:20px;font-weight:bold}
.h2{font-size:13px;fill:#444}
.head{font-size:13px;font-weight:bold}
.note{font-size:11px;fill:#444}
.chip{font-size:11px;font-weight:bold}
.small{font-size:10px;fill:#333}
.mono{font-family:'DejaVu Sans Mono',Menlo,monospace;font-size:10px;fill:#333}
.num{font-size:10px;font-weight:bold;text-anchor:middle;fill:#000}
.light{fill:#fff}
.package{fill:#f4f4f4;stroke:#555;stroke-width:1.5;rx:8}
.loose{fill:#fff;stroke:#555;stroke-width:1.2;stroke-dasharray:5 4;rx:8}
.node{fill:#fff;stroke:#999;rx:5}
.core{stroke:#666;stroke-width:.8;rx:2}
.free{fill:#e3e3e3}
.outside{fill:#fff;stroke:#aaa;stroke-dasharray:2 2}
.plain{fill:#b9c6d3}
.gpu{fill:#fff;stroke:#222;stroke-width:1.6;rx:4}
.remote{fill:#fff;stroke:#c4320a;stroke-width:2.6;stroke-dasharray:7 3;rx:4}
.warn{font-size:10px;font-weight:bold;fill:#a32a08}
.nic{fill:#fff;stroke:#777;rx:4}
.down{fill:#fff;stroke:#777;stroke-dasharray:3 3;rx:4}
.mem{fill:#fff;stroke:#999;stroke-dasharray:1 2;rx:9}
.wire{stroke:#777;stroke-width:1.4}
";
