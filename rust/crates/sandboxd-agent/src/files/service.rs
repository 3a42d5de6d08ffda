//! The calls of `Files`.
//!
//! All work is done on the runtime's threads for blocking work, never on the one that serves
//! everybody. A call on a sandbox that ended meanwhile fails, even if its files still took it.

use std::sync::Arc;

use bytes::Bytes;
use sandboxd_proto::{CallError, ErrorCode, v1};
use tokio::task::spawn_blocking;
use tokio_stream::StreamExt as _;

use super::entry::{list, stat};
use super::make_dir::make_dir;
use super::path::SandboxPath;
use super::read::Reading;
use super::remove::remove;
use super::tree::{Owner, Tree};
use super::write::{Target, Upload};
use crate::agent::Agent;
use crate::call::{Answer, Chunks, Events};
use crate::exec::{Claimed, Identity, parse_user};
use crate::sandboxes::SandboxRoot;

/// Bytes of an upload that are written in one go: the window of a stream, so that whoever sends a
/// small file causes one change of threads in all.
const BATCH: usize = 256 * 1024;

impl Agent {
    /// Streams a regular file.
    pub(crate) async fn files_read(
        &self,
        request: v1::FilesReadRequest,
    ) -> Answer<Events<v1::FilesReadResponse>> {
        let v1::FilesReadRequest { sandbox_id, path, offset, length } = request;
        let (tree, path) = self.place(&sandbox_id, &path).await?;
        let reading = blocking(move || Reading::open(&tree, path, offset, length)).await?;
        let counters = Arc::clone(&self.host().counters);
        Ok(Box::pin(reading.stream().map(move |part| {
            counters.file_read_bytes.add(part.as_ref().map_or(0, |part| part.data.len() as u64));
            part
        })))
    }

    /// Writes a whole file. Dropping the future removes what was written so far.
    pub(crate) async fn files_write(
        &self,
        target: v1::FilesWriteTarget,
        mut chunks: Chunks,
    ) -> Answer<v1::FilesWriteResponse> {
        let v1::FilesWriteTarget { sandbox_id, path, mode, user, parents } = target;
        check_mode(mode)?;
        let root = self.sandbox_root(&sandbox_id).await?;
        let path = SandboxPath::new(&path, &root.cwd)?;
        let tree = Tree::new(root.root.clone(), root.ids);
        let begin = move || {
            let owner = owner(&root, &user)?;
            Upload::begin(&tree, &Target { path, mode, owner, parents })
        };
        let mut state = Writing::Waiting(Box::new(begin));
        loop {
            let (batch, is_last) = gather(&mut chunks).await?;
            let step = blocking(move || {
                let mut upload = match state {
                    Writing::Waiting(begin) => Box::new(begin()?),
                    Writing::Begun(upload) => upload,
                };
                upload.append(&batch)?;
                if is_last { upload.finish().map(Step::Done) } else { Ok(Step::More(upload)) }
            });
            match step.await? {
                Step::More(upload) => state = Writing::Begun(upload),
                Step::Done(response) => {
                    self.sandbox(&sandbox_id)?;
                    self.host().counters.file_written_bytes.add(response.size);
                    return Ok(response);
                }
            }
        }
    }

    /// What is at a path.
    pub(crate) async fn files_stat(
        &self,
        request: v1::FilesStatRequest,
    ) -> Answer<v1::FilesStatResponse> {
        let v1::FilesStatRequest { sandbox_id, path: name, follow } = request;
        let (tree, path) = self.place(&sandbox_id, &name).await?;
        let entry = blocking(move || stat(&tree, &path, follow)).await?;
        Ok(v1::FilesStatResponse { entry: Some(v1::FileEntry { name, ..entry }) })
    }

    /// What is in a folder.
    pub(crate) async fn files_list(
        &self,
        request: v1::FilesListRequest,
    ) -> Answer<v1::FilesListResponse> {
        let (tree, path) = self.place(&request.sandbox_id, &request.path).await?;
        let entries = blocking(move || list(&tree, &path)).await?;
        Ok(v1::FilesListResponse { entries })
    }

    /// Removes a file or a folder.
    pub(crate) async fn files_remove(
        &self,
        request: v1::FilesRemoveRequest,
    ) -> Answer<v1::FilesRemoveResponse> {
        let v1::FilesRemoveRequest { sandbox_id, path, recursive } = request;
        let (tree, path) = self.place(&sandbox_id, &path).await?;
        blocking(move || remove(&tree, &path, recursive)).await?;
        self.sandbox(&sandbox_id)?;
        Ok(v1::FilesRemoveResponse {})
    }

    /// Makes a folder.
    pub(crate) async fn files_make_dir(
        &self,
        request: v1::FilesMakeDirRequest,
    ) -> Answer<v1::FilesMakeDirResponse> {
        let v1::FilesMakeDirRequest { sandbox_id, path, parents, mode } = request;
        check_mode(mode)?;
        let (tree, path) = self.place(&sandbox_id, &path).await?;
        blocking(move || make_dir(&tree, &path, parents, mode)).await?;
        self.sandbox(&sandbox_id)?;
        Ok(v1::FilesMakeDirResponse {})
    }

    async fn place(&self, sandbox_id: &str, path: &[u8]) -> Answer<(Tree, SandboxPath)> {
        let SandboxRoot { root, ids, cwd } = self.sandbox_root(sandbox_id).await?;
        Ok((Tree::new(root, ids), SandboxPath::new(path, &cwd)?))
    }
}

/// An upload between two batches.
enum Writing {
    /// Nothing has arrived yet, so nothing was made.
    Waiting(Box<dyn FnOnce() -> Answer<Upload> + Send>),
    Begun(Box<Upload>),
}

/// What a batch led to.
enum Step {
    More(Box<Upload>),
    Done(v1::FilesWriteResponse),
}

/// Collects chunks until there are enough of them, or no more.
async fn gather(chunks: &mut Chunks) -> Answer<(Vec<Bytes>, bool)> {
    let (mut batch, mut bytes) = (Vec::new(), 0);
    while bytes < BATCH {
        match chunks.next().await {
            Some(chunk) => {
                let chunk = chunk?;
                bytes += chunk.len();
                batch.push(chunk);
            }
            None => return Ok((batch, true)),
        }
    }
    Ok((batch, false))
}

/// The ids of a new file.
fn owner(root: &SandboxRoot, user: &str) -> Answer<Owner> {
    let Some(name) = parse_user(user)? else { return Ok(Owner::ROOT) };
    let claimed = Claimed { environment: &[], cpus: None };
    let found = Identity::resolve(&root.root, &name, root.ids, claimed).map_err(|error| {
        // No program was to be started.
        match error.code {
            ErrorCode::ExecFailed => CallError::new(ErrorCode::InvalidArgument, error.message),
            _ => error,
        }
    })?;
    Ok(Owner { uid: found.uid, gid: found.gid })
}

fn check_mode(mode: Option<u32>) -> Answer<()> {
    match mode {
        Some(mode) if mode > 0o7777 => {
            let message = format!("mode is {mode:#o}, above the limit of 0o7777");
            Err(CallError::new(ErrorCode::InvalidArgument, message))
        }
        _ => Ok(()),
    }
}

async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Answer<T> + Send + 'static,
) -> Answer<T> {
    spawn_blocking(work).await.unwrap_or_else(|error| {
        let message = format!("file call ended early: {error}");
        Err(CallError::new(ErrorCode::Internal, message))
    })
}
