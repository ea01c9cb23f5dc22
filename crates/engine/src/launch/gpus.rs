//! What srun's own words say about the step's GPUs.
//!
//! Slurm tells a node how many GPUs it has itself, not what the others have, and torchrun needs the same number everywhere.
//! Only a total (`--gpus`) can come out uneven.
#![forbid(unsafe_code)]

/// How many GPUs the step is asked to have in total and by no other option, so that nodes may come out with
/// different numbers. `words` are srun's own; those of the command cannot be told from them, but the first option counts.
pub fn in_total(words: &[String], of_job: Option<&str>) -> Option<u32> {
    const PER: [&str; 5] = ["--gpus-per-node", "--gpus-per-task", "--gpus-per-socket", "--gres", "--tres-per-task"];
    let mut words = words.iter().map(String::as_str);
    while let Some(word) = words.next() {
        let (option, value) = word.split_once('=').map_or((word, None), |(option, value)| (option, Some(value)));
        match option {
            "-G" | "--gpus" => return count(value.or_else(|| words.next())?),
            _ if PER.contains(&option) => return None,
            _ if word.starts_with("-G") => return count(word.strip_prefix("-G")?),
            _ => {}
        }
    }
    of_job.and_then(count)
}

/// `[TYPE:]NUMBER[,…]`.
fn count(gpus: &str) -> Option<u32> {
    gpus.split(',').try_fold(0_u32, |sum, item| sum.checked_add(item.rsplit(':').next()?.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::in_total;

    fn total(words: &str, of_job: Option<&str>) -> Option<u32> {
        let words: Vec<String> = words.split_whitespace().map(str::to_owned).collect();
        in_total(&words, of_job)
    }

    #[test]
    fn only_a_total_without_any_other_wish_is_one() {
        for words in
            ["--gpus=3 prog", "--gpus 3 prog", "-G 3 prog", "-G3 prog", "-N2 -G h200:3 prog", "-G a:1,b:2 prog"]
        {
            assert_eq!(total(words, None), Some(3), "{words}");
        }
        let beyond = "-G 4294967295,1 prog";
        for words in ["prog", "--gpus-per-node=2 prog -G 5", "--gres=gpu:2 prog", "-G x prog", "-G", beyond] {
            assert_eq!(total(words, None), None, "{words}");
        }
        assert_eq!(total("prog", Some("h200:16")), Some(16));
        assert_eq!(total("--gpus-per-node=1 prog", Some("16")), None, "the step has a wish of its own");
    }
}
