//! Which RDMA ports NCCL uses: the value of `NCCL_IB_HCA`.

/// A list of devices, as NCCL reads it: names are prefixes, or exact behind `=`; `^` in front excludes them; `:PORT`
/// behind a name means one port, and what NCCL 2.30 lets follow that is passed over. At most 32 names count (NCCL:
/// src/transport/net_ib).
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct HcaFilter {
    exclude: bool,
    exact: bool,
    items: Vec<(String, Option<u32>)>,
}

const ITEMS_MAX: usize = 32;

impl HcaFilter {
    /// Reads a value; an empty one takes everything, as no value does.
    pub fn parse(value: &str) -> Self {
        let (exclude, value) = strip(value, '^');
        let (exact, value) = strip(value, '=');
        let item = |item: &str| {
            let mut parts = item.split(':');
            let name = parts.next().unwrap_or_default().to_owned();
            (name, parts.next().and_then(|port| port.parse().ok()))
        };
        let items = value.split(',').filter(|text| !text.is_empty()).take(ITEMS_MAX).map(item).collect();
        Self { exclude, exact, items }
    }

    /// Whether NCCL would use this port.
    pub fn takes(&self, device: &str, port: u32) -> bool {
        if self.items.is_empty() {
            return true;
        }
        let named = |(name, only): &(String, Option<u32>)| {
            let fits = if self.exact { device == name } else { device.starts_with(name.as_str()) };
            fits && only.is_none_or(|only| only == port)
        };
        self.items.iter().any(named) != self.exclude
    }
}

fn strip(text: &str, sign: char) -> (bool, &str) {
    text.strip_prefix(sign).map_or((false, text), |rest| (true, rest))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_prefixes_unless_an_equal_sign_says_otherwise() {
        for (value, device, port, expected) in [
            ("", "mlx5_0", 1, true),
            ("mlx5_1", "mlx5_1", 1, true),
            ("mlx5_1", "mlx5_10", 1, true),
            ("=mlx5_1", "mlx5_10", 1, false),
            ("=mlx5_1,mlx5_10", "mlx5_10", 1, true),
            ("^=mlx5_1", "mlx5_1", 1, false),
            ("^=mlx5_1", "mlx5_10", 1, true),
            ("^mlx5_1", "mlx5_10", 1, false),
            ("=mlx5_0:1", "mlx5_0", 2, false),
            ("=mlx5_0:2:0:1", "mlx5_0", 2, true),
            ("^", "mlx5_0", 1, true),
        ] {
            assert_eq!(HcaFilter::parse(value).takes(device, port), expected, "{value} {device}:{port}");
        }
    }
}
