//! PCI addresses, in every spelling that the sources of gpu-tune use.
#![forbid(unsafe_code)]

use crate::text::shown;
use std::fmt;
use std::str::FromStr;

/// The address of one PCI function. Its order is the order in which gpu-tune numbers GPUs.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PciAddress {
    /// PCI domain (segment). 16 bits almost everywhere; VMD makes wider ones.
    pub domain: u32,
    /// Bus number.
    pub bus: u8,
    /// Device (slot) on the bus, 0 to 31.
    pub device: u8,
    /// Function of the device, 0 to 7.
    pub function: u8,
}

/// A text that is not a PCI address.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is not a PCI address: expected one like `0000:4e:00.0`")]
pub struct BadPciAddress(pub String);

impl fmt::Display for PciAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { domain, bus, device, function } = self;
        write!(f, "{domain:04x}:{bus:02x}:{device:02x}.{function:x}")
    }
}

impl fmt::Debug for PciAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl FromStr for PciAddress {
    type Err = BadPciAddress;

    /// Takes what sysfs and hwloc write (`0000:4e:00.0`), what NVML writes (`00000000:4E:00.0`), and the short form
    /// without a domain (`4e:00.0`).
    fn from_str(text: &str) -> Result<Self, BadPciAddress> {
        parse(text).ok_or_else(|| BadPciAddress(shown(text)))
    }
}

fn parse(text: &str) -> Option<PciAddress> {
    let (rest, function) = text.rsplit_once('.')?;
    let (rest, device) = rest.rsplit_once(':')?;
    let (domain, bus) = rest.rsplit_once(':').unwrap_or(("0", rest));
    let address = PciAddress {
        domain: hex(domain, 8)?,
        bus: u8::try_from(hex(bus, 2)?).ok()?,
        device: u8::try_from(hex(device, 2)?).ok()?,
        function: u8::try_from(hex(function, 1)?).ok()?,
    };
    (address.device < 32 && address.function < 8).then_some(address)
}

/// Hexadecimal digits only: `from_str_radix` alone would take a sign too.
fn hex(text: &str, most: usize) -> Option<u32> {
    let plain = !text.is_empty() && text.len() <= most && text.bytes().all(|b| b.is_ascii_hexdigit());
    plain.then(|| u32::from_str_radix(text, 16).ok()).flatten()
}

impl serde::Serialize for PciAddress {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> serde::Deserialize<'de> for PciAddress {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = <std::borrow::Cow<'de, str>>::deserialize(deserializer)?;
        text.parse().map_err(serde::de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_source_spells_the_same_address() {
        for text in ["0000:4e:00.0", "00000000:4E:00.0", "4e:00.0"] {
            assert_eq!(text.parse::<PciAddress>().unwrap().to_string(), "0000:4e:00.0", "{text}");
        }
        assert_eq!("10000:e0:06.0".parse::<PciAddress>().unwrap().to_string(), "10000:e0:06.0");
    }

    #[test]
    fn what_is_no_address_is_refused() {
        for text in ["", "4e", "4e:00", "0000:4e:20.0", "0000:4e:00.8", "0000:+4e:00.0", "x:4e:00.0", "0000:4e:00.0 "] {
            assert!(text.parse::<PciAddress>().is_err(), "{text:?}");
        }
    }
}
