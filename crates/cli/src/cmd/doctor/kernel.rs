//! The kernel's settings.

use super::host::Host;
use super::line::Line;

/// Everything about the kernel.
pub(super) fn check(host: &Host) -> Vec<Line> {
    vec![memlock(host), balancing(host), huge_pages(host)]
}

/// Pinned buffers and RDMA need locked memory; steps inherit slurmd's limit.
fn memlock(host: &Host) -> Line {
    let subject = "locked memory";
    let slurmd = host.processes("slurmd").first().map(u32::to_string);
    let whose = if slurmd.is_some() { "slurmd" } else { "this shell" };
    let limits = host.read(format!("/proc/{}/limits", slurmd.as_deref().unwrap_or("self"))).unwrap_or_default();
    // `Max locked memory         unlimited            unlimited            bytes`
    let line = limits.lines().find_map(|line| line.strip_prefix("Max locked memory"));
    let mut words = line.unwrap_or_default().split_whitespace();
    match (words.next(), words.next()) {
        (Some(_), Some("unlimited")) => Line::ok(subject, format!("unlimited for {whose}")),
        (Some(_), Some(hard)) => {
            Line::warn(subject, format!("at most {hard} bytes for {whose}: pinned buffers and RDMA may fail"))
                .fix("`LimitMEMLOCK=infinity` in slurmd's unit; `memlock = \"unlimited\"` in a profile raises it too")
        }
        _ => Line::skip(subject, "the limit cannot be read"),
    }
}

/// It unmaps pages to see who uses them, and moves those that ranks placed on purpose.
fn balancing(host: &Host) -> Line {
    let subject = "NUMA balancing";
    match host.read("/proc/sys/kernel/numa_balancing").as_deref().map(str::trim) {
        None => Line::skip(subject, "this kernel has none"),
        Some("0") => Line::ok(subject, "off"),
        Some(_) => {
            Line::warn(subject, "on: the kernel interrupts ranks to move pages that already are where they belong")
                .fix("`sysctl kernel.numa_balancing=0`, and in /etc/sysctl.d")
        }
    }
}

fn huge_pages(host: &Host) -> Line {
    let subject = "huge pages";
    let text = host.read("/sys/kernel/mm/transparent_hugepage/enabled").unwrap_or_default();
    match text.split_whitespace().find(|word| word.starts_with('[')) {
        None => Line::skip(subject, "this kernel has no transparent huge pages"),
        Some("[never]") => Line::warn(subject, "never: big host buffers cost more address translation")
            .fix("`echo madvise > /sys/kernel/mm/transparent_hugepage/enabled`, or always"),
        Some(mode) => Line::ok(subject, mode.trim_matches(['[', ']'])),
    }
}
