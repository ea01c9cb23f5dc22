//! What the built-in profiles set and why, and where facts about variables come from, as a part of docs/profiles.md.

use crate::profile::{Catalog, Rule};

/// Where facts about a variable come from, by the beginning of its name.
const SOURCES: [(&str, &str); 23] = [
    ("ACCELERATE_", "Hugging Face accelerate, `utils/environment.py`"),
    ("CUDA_", "CUDA C++ programming guide, \"CUDA Environment Variables\""),
    ("GLOO_", "PyTorch, \"Distributed communication package\", and gloo's TCP transport"),
    ("GOMP_", "GNU libgomp manual, \"Environment Variables\""),
    ("HYDRA_", "MPICH, \"Using the Hydra Process Manager\""),
    ("I_MPI_", "Intel MPI Library developer reference, \"Process Pinning\""),
    ("KMP_", "LLVM/Intel OpenMP runtime, \"Thread Affinity Interface\""),
    ("LD_", "ld.so(8)"),
    ("MKL_", "oneMKL developer guide, \"Threading Control\""),
    ("MV2_", "MVAPICH2 user guide, \"CPU Mapping\""),
    (
        "NCCL_",
        "NCCL user guide, \"Environment Variables\" (docs.nvidia.com/deeplearning/nccl/user-guide/docs/env.html), and its \
         source from 2.18 to 2.30 (`NCCL_PARAM`)",
    ),
    ("NVTE_", "TransformerEngine, `docs/envvars.rst`"),
    ("OMPI_", "Open MPI documentation, \"Binding\""),
    ("OMP_", "OpenMP specification, \"Environment Variables\""),
    ("OPENBLAS_", "OpenBLAS, \"Runtime variables\""),
    ("PATH", "environ(7)"),
    ("PET_", "PyTorch, `torch/distributed/run.py` and `argparse_util.py`, 2.1 to 2.15"),
    ("PRTE_", "PRRTE documentation, \"Binding\""),
    ("PYTHON", "Python, \"Command line and environment\""),
    ("PYTORCH_", "PyTorch, \"CUDA semantics\", memory management"),
    ("TLLM_", "TensorRT-LLM deployment guide, \"CPU affinity\""),
    ("TORCH_", "PyTorch, \"Torch Distributed\" and `ProcessGroupNCCL.hpp`"),
    ("UCX_", "UCX documentation, and `ucx_info -c -f`"),
];

/// Both tables, with their headings.
pub(super) fn markdown() -> String {
    let mut page = String::from(
        "\n## What the built-in profiles set\n\n| profile | variable | set to | why |\n|---|---|---|---|\n",
    );
    let catalog = Catalog::builtin();
    for (name, entry) in catalog.entries() {
        let lines: Vec<&str> = entry.text().unwrap_or_default().lines().collect();
        let rules = catalog.profile(name).into_iter().flat_map(|profile| &profile.env);
        page.extend(rules.map(|rule| row(name, rule, &lines)));
    }
    page.push_str("\n## Sources\n\n| variables | where it is written |\n|---|---|\n");
    page.extend(SOURCES.iter().map(|(start, source)| format!("| `{start}…` | {source} |\n")));
    page
}

fn row(profile: &str, rule: &Rule, lines: &[&str]) -> String {
    let at = rule.origin.line.saturating_sub(1);
    let text = lines.get(at).copied().unwrap_or_default().trim().trim_end_matches(',');
    let value = text.split_once(" = ").filter(|(name, _)| *name == &*rule.name).map_or(text, |(_, value)| value);
    format!("| `{profile}` | `{}` | `{value}` | {} |\n", rule.name, reason(lines, at))
}

/// The comment above a line, or above the group of lines that it is in.
fn reason(lines: &[&str], at: usize) -> String {
    let above = || lines.iter().take(at).rev();
    let group = above().take_while(|line| !line.starts_with('#') && !line.trim().is_empty()).count();
    let mut comment: Vec<&str> = above().skip(group).map_while(|line| line.strip_prefix('#')).map(str::trim).collect();
    comment.reverse();
    comment.join(" ").split_whitespace().collect::<Vec<_>>().join(" ").replace('|', "\\|")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::profile::known::KNOWN;

    #[test]
    fn every_known_variable_has_a_source() {
        for known in KNOWN {
            assert!(SOURCES.iter().any(|(start, _)| known.name.starts_with(start)), "{}", known.name);
        }
    }

    #[test]
    fn every_value_of_a_built_in_profile_has_its_reason_beside_it() {
        for line in markdown().lines().filter(|line| line.starts_with("| `")) {
            assert!(!line.ends_with("|  |"), "{line}");
        }
    }
}
