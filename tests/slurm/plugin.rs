//! Plugins and libraries of a test's own, in C.

use super::conf;
use super::place::Place;
use std::path::PathBuf;
use std::process::Command;

/// Compiles a library of the place and returns its path as programs of the place see it; `None`, and a line, without a
/// compiler.
pub fn compile(place: &Place, name: &str, code: &str) -> Option<PathBuf> {
    let (source, library) = (format!("lib/{name}.c"), format!("lib/{name}.so"));
    place.write(&source, &format!("{code}\n"));
    let mut compiler = Command::new("cc");
    match compiler.args(["-shared", "-fPIC", "-o"]).arg(place.outside(&library)).arg(place.outside(&source)).status() {
        Ok(status) => {
            assert!(status.success(), "{name}.c does not compile");
            Some(place.inside(&library))
        }
        Err(error) => {
            println!("skipped: no C compiler: {error}");
            None
        }
    }
}

/// Compiles a SPANK plugin whose `task_init` does this; `argv` has its words.
pub fn in_task_init(place: &Place, name: &str, code: &str) -> Option<PathBuf> {
    let (major, minor) = conf::release(place);
    let source = format!(
        "#include <fcntl.h>\n#include <unistd.h>\n\
         const char plugin_name[] = \"{name}\", plugin_type[] = \"spank\";\n\
         const unsigned int plugin_version = {version}, spank_plugin_version = 1;\n\
         int slurm_spank_task_init(void *spank, int argc, char **argv) {{ {code} return 0; }}",
        version = (major << 16) | (minor << 8)
    );
    compile(place, name, &source)
}
