//! A range of network addresses, such as `10.1.0.0/16`.

use crate::text::number;
use std::fmt;
use std::net::IpAddr;
use std::str::FromStr;

/// The addresses that share their first bits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AddressRange {
    network: IpAddr,
    bits: u32,
}

/// A text that is no range.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("expected a range of addresses like `10.1.0.0/16`")]
pub struct BadRange;

impl AddressRange {
    /// Whether an address is in the range. An IPv4 address is never in a range of IPv6 addresses, nor the other way round.
    pub fn contains(&self, address: IpAddr) -> bool {
        match (self.network, address) {
            (IpAddr::V4(network), IpAddr::V4(address)) => {
                same(network.to_bits().into(), address.to_bits().into(), 32 - self.bits)
            }
            (IpAddr::V6(network), IpAddr::V6(address)) => same(network.to_bits(), address.to_bits(), 128 - self.bits),
            (IpAddr::V4(_), IpAddr::V6(_)) | (IpAddr::V6(_), IpAddr::V4(_)) => false,
        }
    }
}

/// Whether two addresses are equal but for the last bits.
fn same(a: u128, b: u128, last: u32) -> bool {
    (a ^ b).checked_shr(last).unwrap_or(0) == 0
}

impl FromStr for AddressRange {
    type Err = BadRange;

    fn from_str(text: &str) -> Result<Self, BadRange> {
        let (network, bits) = text.split_once('/').ok_or(BadRange)?;
        let network: IpAddr = network.parse().map_err(|_| BadRange)?;
        let most = if network.is_ipv4() { 32 } else { 128 };
        let bits = number(bits).filter(|bits| *bits <= most).ok_or(BadRange)?;
        Ok(Self { network, bits })
    }
}

impl fmt::Display for AddressRange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.network, self.bits)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_in_a_range_if_the_first_bits_agree() {
        for (range, address, expected) in [
            ("10.1.0.0/16", "10.1.255.1", true),
            ("10.1.0.0/16", "10.2.0.1", false),
            ("0.0.0.0/0", "192.0.2.1", true),
            ("192.0.2.1/32", "192.0.2.2", false),
            ("2001:db8::/32", "2001:db8::1", true),
            ("::/0", "2001:db8::1", true),
            ("::/0", "10.0.0.1", false),
        ] {
            let range: AddressRange = range.parse().unwrap();
            assert_eq!(range.contains(address.parse().unwrap()), expected, "{range} {address}");
        }
        for text in ["", "10.1.0.0", "10.1.0.0/33", "10.1/16", "::/129", "10.1.0.0/+1", "10.1.0.0/", "x/8"] {
            assert!(text.parse::<AddressRange>().is_err(), "{text}");
        }
    }
}
