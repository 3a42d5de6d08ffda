//! The calls of `Files`.
//!
//! All work is done on the runtime's threads for blocking work, never on the one that serves
//! everybody. A call on a sandbox that ended meanwhile fails, even if its files still took it.

use std::sync::Arc;

use bytes::Bytes;
use sandboxd_proto::{CallError, ErrorCode, v1};
use tokio::sync::mpsc;
use tokio::task::spawn_blocking;
use tokio_stream::StreamExt as _;
use tokio_stream::wrappers::ReceiverStream;

use super::archive::Archiving;
use super::entry::{list, stat};
use super::extract::{Destination, Extraction};
use super::make_dir::make_dir;
use super::move_::move_;
use super::path::SandboxPath;
use super::produce::Produced;
use super::protected::{self, Protected};
use super::read::{Part, Reading};
use super::remove::remove;
use super::tree::{Owner, Tree};
use super::uploads::{Finished, Sink, State, Uploads};
use super::watch::Watching;
use super::write::{Target, Upload};
use crate::agent::Agent;
use crate::call::{Answer, CANCELED, Chunks, Events};
use crate::capabilities::Feature;
use crate::counters::Total;
use crate::exec::{Claimed, Identity, parse_user};
use crate::sandboxes::SandboxRoot;

/// Bytes of an upload that are written in one go: the window of a stream, so that whoever sends a
/// small file causes one change of threads in all.
const BATCH: usize = 256 * 1024;

impl Agent {
    /// Streams a regular file, or a part of it.
    pub(crate) async fn files_read(
        &self,
        request: v1::FilesReadRequest,
    ) -> Answer<Events<v1::FilesReadResponse>> {
        let v1::FilesReadRequest { sandbox_id, path, offset, length, tail, version } = request;
        let (tree, path) = self.place(&sandbox_id, &path).await?;
        let part = Part { offset, length, tail, version };
        let reading = blocking(move || Reading::open(&tree, path, &part)).await?;
        let counters = Arc::clone(&self.host().counters);
        Ok(Box::pin(Produced::new(reading).map(move |part| {
            counters.file_read_bytes.add(part.as_ref().map_or(0, |part| part.data.len() as u64));
            part
        })))
    }

    /// Writes a whole file, or takes a part of one. Dropping the future leaves nothing of it.
    pub(crate) async fn files_write(
        &self,
        target: v1::FilesWriteTarget,
        chunks: Chunks,
    ) -> Answer<v1::FilesWriteResponse> {
        let v1::FilesWriteTarget { sandbox_id, path, mode, user, parents, protected, .. } = target;
        check_mode(mode)?;
        let root = self.sandbox_root(&sandbox_id).await?;
        let path = SandboxPath::new(&path, &root.cwd)?;
        let uploads = root.uploads.clone();
        let hidden = if protected { Some(self.protected_files(&sandbox_id)?) } else { None };
        let begin = move || {
            let owner = owner(&root, &user)?.unwrap_or(Owner::ROOT);
            let mut tree = Tree::new(root.root.clone(), root.ids);
            let mut parents = parents;
            if let Some(hidden) = hidden {
                hidden.make_parents(&tree, &path)?;
                (tree, parents) = (hidden.tree(), false);
            }
            let target = Target { path, mode, owner, parents };
            let upload = Upload::begin(&tree, &target, &root.uploads.replacing)?;
            Ok(Sink::File(Box::new(upload)))
        };
        let part =
            UploadPart { id: target.upload_id, offset: target.offset, partial: target.partial };
        let written = &self.host().counters.file_written_bytes;
        let finished = receive(&uploads, part, chunks, written, begin).await;
        match finished.map_err(|error| explain(error, protected))? {
            Finished::File(response) => {
                self.sandbox(&sandbox_id)?;
                Ok(response)
            }
            Finished::Archive(_) => Err(other_kind()),
        }
    }

    /// Unpacks a whole archive, or takes a part of one.
    pub(crate) async fn files_extract(
        &self,
        target: v1::FilesExtractTarget,
        chunks: Chunks,
    ) -> Answer<v1::FilesExtractResponse> {
        let v1::FilesExtractTarget { sandbox_id, path, user, .. } = target;
        let root = self.sandbox_root(&sandbox_id).await?;
        let path = SandboxPath::new(&path, &root.cwd)?;
        let uploads = root.uploads.clone();
        let begin = move || {
            let owner = owner(&root, &user)?;
            let tree = Tree::new(root.root.clone(), root.ids);
            let to = Destination { path, owner };
            let extraction = Extraction::begin(&tree, to, &root.uploads.replacing)?;
            Ok(Sink::Archive(Box::new(extraction)))
        };
        let part =
            UploadPart { id: target.upload_id, offset: target.offset, partial: target.partial };
        let written = &self.host().counters.file_written_bytes;
        match receive(&uploads, part, chunks, written, begin).await? {
            Finished::Archive(response) => {
                self.sandbox(&sandbox_id)?;
                Ok(response)
            }
            Finished::File(_) => Err(other_kind()),
        }
    }

    /// Ends an upload that is not complete.
    pub(crate) async fn files_abandon(
        &self,
        request: v1::FilesAbandonRequest,
    ) -> Answer<v1::FilesAbandonResponse> {
        let root = self.sandbox_root(&request.sandbox_id).await?;
        root.uploads.abandon(&request.upload_id);
        Ok(v1::FilesAbandonResponse {})
    }

    /// Streams a folder as an archive.
    pub(crate) async fn files_archive(
        &self,
        request: v1::FilesArchiveRequest,
    ) -> Answer<Events<v1::FilesArchiveResponse>> {
        let (tree, path) = self.place(&request.sandbox_id, &request.path).await?;
        let archiving = blocking(move || Archiving::open(&tree, path)).await?;
        let counters = Arc::clone(&self.host().counters);
        Ok(Box::pin(Produced::new(archiving).map(move |part| {
            counters.file_read_bytes.add(part.as_ref().map_or(0, |part| part.data.len() as u64));
            part
        })))
    }

    /// Streams changes, until the sandbox ends.
    pub(crate) async fn files_watch(
        &self,
        request: v1::FilesWatchRequest,
    ) -> Answer<Events<v1::FilesWatchResponse>> {
        let (tree, path) = self.place(&request.sandbox_id, &request.path).await?;
        let sandbox = self.sandbox(&request.sandbox_id)?;
        let watching = blocking(move || Watching::open(&tree, path, request.recursive)).await?;
        // Of one: whoever does not read makes the kernel's queue overflow, and no other.
        let (sender, receiver) = mpsc::channel(1);
        tokio::spawn(async move {
            let error = tokio::select! {
                () = watching.tell(sender.clone()) => return,
                error = sandbox.ended() => error,
            };
            let _ = sender.send(Err(error)).await;
        });
        Ok(Box::pin(ReceiverStream::new(receiver)))
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
        let v1::FilesListRequest { sandbox_id, path, recursive } = request;
        let (tree, path) = self.place(&sandbox_id, &path).await?;
        let entries = blocking(move || list(&tree, &path, recursive)).await?;
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
        let v1::FilesMakeDirRequest { sandbox_id, path, parents, mode, protected } = request;
        check_mode(mode)?;
        let (tree, path) = self.place(&sandbox_id, &path).await?;
        let hidden = if protected { Some(self.protected_files(&sandbox_id)?) } else { None };
        let make = move || {
            let Some(hidden) = hidden else { return make_dir(&tree, &path, parents, mode) };
            protected::check_closable(&path)?;
            hidden.make_parents(&tree, &path.trimmed())?;
            make_dir(&hidden.tree(), &path, parents, mode)?;
            hidden.close(&path)
        };
        blocking(make).await.map_err(|error| explain(error, protected))?;
        self.sandbox(&sandbox_id)?;
        Ok(v1::FilesMakeDirResponse {})
    }

    /// Gives something another path.
    pub(crate) async fn files_move(
        &self,
        request: v1::FilesMoveRequest,
    ) -> Answer<v1::FilesMoveResponse> {
        let v1::FilesMoveRequest { sandbox_id, source, target, replace } = request;
        let SandboxRoot { root, ids, cwd, .. } = self.sandbox_root(&sandbox_id).await?;
        let source = SandboxPath::new(&source, &cwd)?;
        let target = SandboxPath::new(&target, &cwd)?;
        let tree = Tree::new(root, ids);
        blocking(move || move_(&tree, &source, &target, replace)).await?;
        self.sandbox(&sandbox_id)?;
        Ok(v1::FilesMoveResponse {})
    }

    /// The protected files of a sandbox that is ready.
    fn protected_files(&self, sandbox_id: &str) -> Answer<Arc<Protected>> {
        let (host, sandbox) = (self.host(), self.sandbox(sandbox_id)?);
        host.capabilities.require(Feature::Grader)?;
        let template = host.templates.root(&sandbox.spec.template, host.cpus.seen(None))?;
        sandbox.protected(&template)
    }

    async fn place(&self, sandbox_id: &str, path: &[u8]) -> Answer<(Tree, SandboxPath)> {
        let SandboxRoot { root, ids, cwd, .. } = self.sandbox_root(sandbox_id).await?;
        Ok((Tree::new(root, ids), SandboxPath::new(path, &cwd)?))
    }
}

/// Which part of an upload a call brings.
struct UploadPart {
    /// Empty: it is the whole, and cannot come again.
    id: String,
    offset: u64,
    partial: bool,
}

/// Takes a part of an upload, the last one to its end.
async fn receive(
    uploads: &Uploads,
    part: UploadPart,
    mut chunks: Chunks,
    written: &Total,
    begin: impl FnOnce() -> Answer<Sink> + Send + 'static,
) -> Answer<Finished> {
    let UploadPart { id, offset, partial } = part;
    if id.is_empty() {
        if partial || offset > 0 {
            let message = "an upload in parts needs an upload_id";
            return Err(CallError::new(ErrorCode::InvalidArgument, message));
        }
        let mut writing = Writing::new(None, 0, begin);
        writing.take_all(&mut chunks, written).await?;
        return writing.finish().await;
    }
    let mut turn = uploads.turn(&id).await?;
    let found = match turn.take() {
        State::Finished(answer) => return Ok(answer),
        State::New if offset == 0 => None,
        State::Waiting(sink) => Some(sink),
        State::New | State::Taken => {
            let message = format!(
                "the agent has nothing of upload {id:?}: its last part is too long ago, or failed"
            );
            return Err(CallError::new(ErrorCode::FileFailed, message).with_reason("upload_lost"));
        }
    };
    // What is here already has come again.
    let here = found.as_ref().map_or(0, Sink::size);
    let Some(skip) = here.checked_sub(offset) else {
        let message =
            format!("part of an upload begins at {offset}, and only {here} bytes are here");
        turn.keep(found);
        return Err(CallError::new(ErrorCode::InvalidArgument, message));
    };
    let mut writing = Writing::new(found, skip, begin);
    match writing.take_all(&mut chunks, written).await {
        Ok(()) => {}
        Err(error) if error.code == ErrorCode::ConnectionLost && error.reason != CANCELED => {
            turn.keep(writing.into_sink());
            return Err(error);
        }
        Err(error) => return Err(error),
    }
    if partial {
        let answer = writing.progress().await?;
        turn.keep(writing.into_sink());
        return Ok(answer);
    }
    let answer = writing.finish().await?;
    turn.finish(answer.clone());
    Ok(answer)
}

/// An upload during a call. Nothing is made before something has arrived, or the end of it.
struct Writing<B> {
    state: Option<Started<B>>,
    /// Bytes that are here already.
    skip: u64,
}

enum Started<B> {
    Not(B),
    Begun(Sink),
}

impl<B: FnOnce() -> Answer<Sink> + Send + 'static> Writing<B> {
    fn new(found: Option<Sink>, skip: u64, begin: B) -> Self {
        Self { state: Some(found.map_or(Started::Not(begin), Started::Begun)), skip }
    }

    async fn take_all(&mut self, chunks: &mut Chunks, written: &Total) -> Answer<()> {
        loop {
            let (mut batch, end) = gather(chunks).await;
            self.drop_known(&mut batch);
            if !batch.is_empty() {
                let size = batch.iter().map(Bytes::len).sum::<usize>() as u64;
                self.step(move |sink| sink.append(&batch)).await?;
                written.add(size);
            }
            match end {
                End::NotYet => {}
                End::Whole => return Ok(()),
                End::Cut(error) => return Err(error),
            }
        }
    }

    fn drop_known(&mut self, batch: &mut Vec<Bytes>) {
        for chunk in batch.iter_mut() {
            let known = usize::try_from(self.skip).unwrap_or(usize::MAX).min(chunk.len());
            self.skip -= known as u64;
            *chunk = chunk.slice(known..);
        }
        batch.retain(|chunk| !chunk.is_empty());
    }

    /// Does something with the sink, on a thread for blocking work. After an error there is none.
    async fn step<T: Send + 'static>(
        &mut self,
        work: impl FnOnce(&mut Sink) -> Answer<T> + Send + 'static,
    ) -> Answer<T> {
        let Some(state) = self.state.take() else { return Err(over()) };
        let (sink, done) = blocking(move || {
            let mut sink = match state {
                Started::Not(begin) => begin()?,
                Started::Begun(sink) => sink,
            };
            let done = work(&mut sink)?;
            Ok((sink, done))
        })
        .await?;
        self.state = Some(Started::Begun(sink));
        Ok(done)
    }

    async fn progress(&mut self) -> Answer<Finished> {
        self.step(|sink| Ok(sink.progress())).await
    }

    async fn finish(mut self) -> Answer<Finished> {
        let Some(state) = self.state.take() else { return Err(over()) };
        blocking(move || match state {
            Started::Not(begin) => begin()?.finish(),
            Started::Begun(sink) => sink.finish(),
        })
        .await
    }

    fn into_sink(self) -> Option<Sink> {
        match self.state {
            Some(Started::Begun(sink)) => Some(sink),
            Some(Started::Not(_)) | None => None,
        }
    }
}

/// Nobody goes on with an upload that failed.
fn over() -> CallError {
    CallError::new(ErrorCode::Internal, "an upload that failed was gone on with")
}

fn other_kind() -> CallError {
    let message = "upload_id names an upload of another kind: choose a new one";
    CallError::new(ErrorCode::InvalidArgument, message)
}

enum End {
    NotYet,
    Whole,
    Cut(CallError),
}

/// Collects chunks until there are enough of them, or no more.
async fn gather(chunks: &mut Chunks) -> (Vec<Bytes>, End) {
    let (mut batch, mut bytes) = (Vec::new(), 0);
    while bytes < BATCH {
        match chunks.next().await {
            Some(Ok(chunk)) => {
                bytes += chunk.len();
                batch.push(chunk);
            }
            Some(Err(error)) => return (batch, End::Cut(error)),
            None => return (batch, End::Whole),
        }
    }
    (batch, End::NotYet)
}

/// The ids of a new file, if a user is named.
fn owner(root: &SandboxRoot, user: &str) -> Answer<Option<Owner>> {
    let Some(name) = parse_user(user)? else { return Ok(None) };
    let claimed = Claimed { environment: &[], cpus: None };
    let found = Identity::resolve(&root.root, &name, root.ids, claimed).map_err(|error| {
        // No program was to be started.
        match error.code {
            ErrorCode::ExecFailed => CallError::new(ErrorCode::InvalidArgument, error.message),
            _ => error,
        }
    })?;
    Ok(Some(Owner { uid: found.uid, gid: found.gid }))
}

/// Names the limit that a write of protected files meets.
fn explain(error: CallError, protected: bool) -> CallError {
    if protected { protected::explain(error) } else { error }
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
