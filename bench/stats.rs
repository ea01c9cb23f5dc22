//! Medians, and how far a ratio can be trusted.

/// The middle of the values; of two middle ones their mean.
pub(crate) fn median(values: &[f64]) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let middle = sorted.len() / 2;
    match sorted.len() {
        0 => f64::NAN,
        odd if odd % 2 == 1 => sorted[middle],
        _ => f64::midpoint(sorted[middle - 1], sorted[middle]),
    }
}

/// The largest value.
pub(crate) fn most(values: &[f64]) -> f64 {
    values.iter().copied().fold(f64::NAN, f64::max)
}

/// How one series compares with another that was measured in the same rounds.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Ratio {
    /// The median of the rounds' ratios.
    pub(crate) median: f64,
    /// Where that median may be: the 95 % interval by order statistics, which assumes nothing about the noise.
    pub(crate) low: f64,
    pub(crate) high: f64,
}

impl Ratio {
    /// Round by round, so that what slows a whole round cancels out.
    pub(crate) fn of(these: &[f64], those: &[f64]) -> Self {
        let mut ratios: Vec<f64> = these.iter().zip(those).map(|(this, that)| this / that).collect();
        ratios.sort_by(f64::total_cmp);
        let count = ratios.len() as f64;
        let reach = 0.98 * count.sqrt();
        let at = |position: f64| ratios[(position.max(0.0) as usize).min(ratios.len() - 1)];
        let (low, high) = (at((count / 2.0 - reach).floor()), at((count / 2.0 + reach).ceil()));
        Self { median: median(&ratios), low, high }
    }
}

impl std::fmt::Display for Ratio {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{:.3} ({:.3}–{:.3})", self.median, self.low, self.high)
    }
}
