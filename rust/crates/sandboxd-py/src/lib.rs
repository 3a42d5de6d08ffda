//! `sandboxd._native`: the direct path for Python.
//!
//! This crate converts between Python objects and messages, and does nothing else: what a
//! connection means is in `sandboxd-client`, what a sandbox means in `sandboxd/client/`.
#![forbid(unsafe_code)]

mod connection;
mod error;
mod replies;
mod requests;

use pyo3::prelude::*;

#[pymodule]
mod _native {
    use pyo3::prelude::*;

    #[pymodule_export]
    use crate::connection::Connection;
    #[pymodule_export]
    use crate::error::NativeError;
    #[pymodule_export]
    use crate::replies::{
        AgentInfo, Counters, ExecEnd, ExecSummary, FileRecord, RunReply, SandboxRecord,
    };
    #[pymodule_export]
    use crate::requests::{
        Request, abandon_request, archive_request, attach_request, claim_request, extract_request,
        info_request, list_execs_request, list_files_request, list_sandboxes_request,
        make_dir_request, move_file_request, read_file_request, read_output_request,
        release_request, remove_file_request, resize_request, run_request, signal_request,
        start_request, stat_file_request, watch_request, write_file_request, write_stdin_request,
    };

    /// The version of the SDK, of which the agent's must be the same minor release.
    #[pymodule_export]
    #[expect(non_upper_case_globals, reason = "the name that Python expects")]
    const __version__: &str = env!("CARGO_PKG_VERSION");

    #[pymodule_init]
    fn init(module: &Bound<'_, PyModule>) -> PyResult<()> {
        crate::error::register(module)
    }
}
