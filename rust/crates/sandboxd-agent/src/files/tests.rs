//! File calls on a folder that plays a sandbox's root, with all that a hostile one may hold.

use std::fs;
use std::os::fd::OwnedFd;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, symlink};
use std::path::PathBuf;
use std::sync::{Arc, Mutex};

use bytes::Bytes;
use proptest::prelude::*;
use rustix::fs::{FileType, Mode, OFlags};
use sandboxd_linux::protocol::IdRange;
use sandboxd_proto::{ErrorCode, v1};
use sha2::{Digest as _, Sha256};
use tokio_stream::StreamExt as _;

use super::archive::Archiving;
use super::entry::{list, stat};
use super::extract::{Destination, Extraction};
use super::make_dir::make_dir;
use super::move_::move_;
use super::new_file::NewFile;
use super::path::SandboxPath;
use super::produce::{Produced, Producer as _};
use super::read::{Part, Reading};
use super::remove::remove;
use super::tree::{Owner, Tree};
use super::write::{Target, Upload};
use crate::call::Answer;

/// A folder with a `secret` beside the root, where a path that leads out would find it.
pub(super) struct Sandbox {
    _outer: tempfile::TempDir,
    pub(super) root: PathBuf,
    pub(super) tree: Tree,
}

pub(super) fn sandbox() -> Sandbox {
    let outer = tempfile::tempdir().unwrap();
    fs::write(outer.path().join("secret"), "secret").unwrap();
    let root = outer.path().join("root");
    fs::create_dir(&root).unwrap();
    let descriptor = rustix::fs::open(&root, OFlags::PATH, Mode::empty()).unwrap();
    // As a sandbox's root has them, seen from a root agent; an ordinary user has its own.
    let user = rustix::process::geteuid().as_raw();
    let ids = IdRange { first: user, count: if user == 0 { 65_536 } else { 1 } };
    let tree = Tree::new(Arc::<OwnedFd>::new(descriptor), ids);
    Sandbox { _outer: outer, root, tree }
}

pub(super) fn path(text: &str) -> SandboxPath {
    SandboxPath::new(text.as_bytes(), b"/").unwrap()
}

fn target(text: &str) -> Target {
    Target { path: path(text), mode: None, owner: Owner::ROOT, parents: false }
}

impl Sandbox {
    fn write(&self, target: &Target, data: &'static [u8]) -> Answer<v1::FilesWriteResponse> {
        let mut upload = Upload::begin(&self.tree, target, &Arc::default())?;
        upload.append(&[Bytes::from_static(data)])?;
        upload.finish()
    }

    fn read(&self, text: &str, offset: u64, length: Option<u64>) -> Answer<Vec<u8>> {
        self.read_part(text, &Part { offset, length, ..Part::default() }).map(|(bytes, _)| bytes)
    }

    fn read_part(&self, text: &str, part: &Part) -> Answer<(Vec<u8>, v1::FilesReadResponse)> {
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        runtime.block_on(async {
            let reading = Reading::open(&self.tree, path(text), part)?;
            let mut stream = Produced::new(reading);
            let mut bytes = Vec::new();
            let first = stream.next().await.unwrap()?;
            bytes.extend_from_slice(&first.data);
            while let Some(message) = stream.next().await {
                let message = message?;
                assert!((1..64 * 1024).contains(&message.data.len()));
                assert!(message.version.is_empty() && message.offset.is_none());
                bytes.extend_from_slice(&message.data);
            }
            Ok((bytes, first))
        })
    }

    fn names(&self) -> Vec<String> {
        let entries = fs::read_dir(&self.root).unwrap();
        let mut names: Vec<String> =
            entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        names
    }
}

fn code<T: std::fmt::Debug>(answer: Answer<T>) -> ErrorCode {
    answer.unwrap_err().code
}

#[test]
fn f1_what_was_written_is_there_with_its_size_and_hash() {
    let sandbox = sandbox();
    let answer = sandbox.write(&target("/f"), b"hello").unwrap();
    assert_eq!(answer.size, 5);
    assert_eq!(answer.sha256[..], Sha256::digest(b"hello")[..]);
    assert_eq!(fs::read(sandbox.root.join("f")).unwrap(), b"hello");
    let found = fs::metadata(sandbox.root.join("f")).unwrap();
    assert_eq!(found.mode() & 0o7777, 0o644);
    assert_eq!(sandbox.names(), ["f"]);
}

#[test]
fn reads_begin_and_end_where_they_are_told() {
    let sandbox = sandbox();
    let content: Vec<u8> = (0..200_000_u32).map(|number| number.to_le_bytes()[0]).collect();
    fs::write(sandbox.root.join("f"), &content).unwrap();
    assert_eq!(sandbox.read("/f", 0, None).unwrap(), content);
    assert_eq!(sandbox.read("/f", 199_990, None).unwrap(), content[199_990..]);
    assert_eq!(sandbox.read("/f", 10, Some(100_000)).unwrap(), content[10..100_010]);
    for (offset, length) in [(200_000, None), (u64::MAX, None), (0, Some(0)), (1 << 63, Some(5))] {
        assert_eq!(sandbox.read("/f", offset, length).unwrap(), b"");
    }
    assert_eq!(sandbox.read("/f", 199_999, Some(u64::MAX)).unwrap(), content[199_999..]);
}

#[test]
fn files_above_two_gibibytes_are_read() {
    let sandbox = sandbox();
    let file = fs::File::create(sandbox.root.join("f")).unwrap();
    file.set_len(5 << 30).unwrap();
    assert_eq!(sandbox.read("/f", (5 << 30) - 3, None).unwrap(), [0; 3]);
}

#[test]
fn f2_an_upload_that_is_given_up_leaves_the_old_file_and_nothing_else() {
    let sandbox = sandbox();
    fs::write(sandbox.root.join("f"), "old").unwrap();
    let mut upload = Upload::begin(&sandbox.tree, &target("/f"), &Arc::default()).unwrap();
    upload.append(&[Bytes::from_static(b"new")]).unwrap();
    // It has no name: not even the end of this process would leave anything.
    assert_eq!(sandbox.names(), ["f"]);
    drop(upload);
    assert_eq!(sandbox.names(), ["f"]);
    assert_eq!(fs::read(sandbox.root.join("f")).unwrap(), b"old");
}

#[test]
fn a_replaced_file_passes_its_permissions_on_but_no_set_id_bits() {
    let sandbox = sandbox();
    let file = sandbox.root.join("f");
    fs::write(&file, "").unwrap();
    fs::set_permissions(&file, fs::Permissions::from_mode(0o4750)).unwrap();
    sandbox.write(&target("/f"), b"x").unwrap();
    assert_eq!(fs::metadata(&file).unwrap().mode() & 0o7777, 0o750);
    let explicit = Target { mode: Some(0o4711), ..target("/f") };
    sandbox.write(&explicit, b"x").unwrap();
    assert_eq!(fs::metadata(&file).unwrap().mode() & 0o7777, 0o4711);
}

#[test]
fn no_path_and_no_link_leads_out() {
    for text in ["../secret", "/../../secret", "up/secret", "absolute", "chain", "magic/cwd"] {
        let sandbox = sandbox();
        let outside = sandbox.root.parent().unwrap();
        symlink("..", sandbox.root.join("up")).unwrap();
        symlink(outside.join("secret"), sandbox.root.join("absolute")).unwrap();
        symlink("up/secret", sandbox.root.join("chain")).unwrap();
        symlink("/proc/self", sandbox.root.join("magic")).unwrap();
        assert!(sandbox.read(text, 0, None).is_err(), "{text}");
        assert!(stat(&sandbox.tree, &path(text), true).is_err(), "{text}");
        let _ = sandbox.write(&target(text), b"overwritten");
        let _ = remove(&sandbox.tree, &path(text), true);
        let _ = make_dir(&sandbox.tree, &path(text), true, None);
        assert_eq!(fs::read(outside.join("secret")).unwrap(), b"secret", "{text}");
        assert_eq!(fs::read_dir(outside).unwrap().count(), 2, "{text}");
    }
}

#[test]
fn writing_through_a_link_replaces_the_file_it_leads_to() {
    let sandbox = sandbox();
    fs::create_dir(sandbox.root.join("d")).unwrap();
    fs::write(sandbox.root.join("d/f"), "old").unwrap();
    symlink("/d/f", sandbox.root.join("absolute")).unwrap();
    symlink("absolute", sandbox.root.join("relative")).unwrap();
    sandbox.write(&target("/relative"), b"new").unwrap();
    assert_eq!(fs::read(sandbox.root.join("d/f")).unwrap(), b"new");
    assert!(fs::symlink_metadata(sandbox.root.join("relative")).unwrap().is_symlink());
    // Also to where nothing is yet.
    symlink("d/g", sandbox.root.join("dangling")).unwrap();
    sandbox.write(&target("/dangling"), b"new").unwrap();
    assert_eq!(fs::read(sandbox.root.join("d/g")).unwrap(), b"new");
    symlink("loop", sandbox.root.join("loop")).unwrap();
    assert_eq!(code(sandbox.write(&target("/loop"), b"")), ErrorCode::FileFailed);
}

#[test]
fn pipes_sockets_and_folders_are_refused_and_never_waited_for() {
    let sandbox = sandbox();
    let pipe = sandbox.root.join("pipe");
    let mode = Mode::RUSR | Mode::WUSR;
    rustix::fs::mknodat(rustix::fs::CWD, &pipe, FileType::Fifo, mode, 0).unwrap();
    let _socket = std::os::unix::net::UnixListener::bind(sandbox.root.join("socket")).unwrap();
    fs::create_dir(sandbox.root.join("folder")).unwrap();
    for (name, expected) in [
        ("/pipe", ErrorCode::NotARegularFile),
        ("/socket", ErrorCode::NotARegularFile),
        ("/folder", ErrorCode::IsADirectory),
        ("/folder/", ErrorCode::IsADirectory),
    ] {
        assert_eq!(code(sandbox.read(name, 0, None)), expected, "{name}");
        assert_eq!(code(sandbox.write(&target(name), b"x")), expected, "{name}");
    }
    assert_eq!(code(sandbox.read("/nowhere/f", 0, None)), ErrorCode::FileNotFound);
    assert_eq!(code(sandbox.read("/pipe/f", 0, None)), ErrorCode::NotADirectory);
}

#[test]
fn what_proc_shows_is_not_read_with_the_rights_of_the_agent() {
    let root = rustix::fs::open("/", OFlags::PATH, Mode::empty()).unwrap();
    let tree = Tree::new(Arc::<OwnedFd>::new(root), IdRange { first: 0, count: 65_536 });
    for file in ["/proc/version", "/proc/self/environ", "/proc/1/cmdline"] {
        assert!(Reading::open(&tree, path(file), &Part::default()).is_err(), "{file}");
    }
    let error = Reading::open(&tree, path("/proc/version"), &Part::default()).unwrap_err();
    assert_eq!(error.code, ErrorCode::NotARegularFile);
}

#[test]
fn missing_folders_are_made_when_asked_for() {
    let sandbox = sandbox();
    assert_eq!(code(sandbox.write(&target("/a/b/f"), b"x")), ErrorCode::FileNotFound);
    let with_parents = Target { parents: true, ..target("/a/b/f") };
    sandbox.write(&with_parents, b"x").unwrap();
    assert_eq!(fs::metadata(sandbox.root.join("a/b")).unwrap().mode() & 0o7777, 0o755);

    make_dir(&sandbox.tree, &path("/p/q//r/./s/"), true, Some(0o1777)).unwrap();
    assert_eq!(fs::metadata(sandbox.root.join("p/q/r/s")).unwrap().mode() & 0o7777, 0o1777);
    make_dir(&sandbox.tree, &path("/p/q"), true, None).unwrap();
    assert_eq!(code(make_dir(&sandbox.tree, &path("/p/q"), false, None)), ErrorCode::FileExists);
    assert_eq!(code(make_dir(&sandbox.tree, &path("/x/y"), false, None)), ErrorCode::FileNotFound);
    assert_eq!(code(make_dir(&sandbox.tree, &path("/a/b/f"), true, None)), ErrorCode::FileExists);
    assert_eq!(
        code(make_dir(&sandbox.tree, &path("/a/b/f/g"), true, None)),
        ErrorCode::NotADirectory
    );
    make_dir(&sandbox.tree, &path("/"), true, None).unwrap();
}

#[test]
fn new_files_and_folders_belong_to_their_owner() {
    if !rustix::process::geteuid().is_root() {
        return;
    }
    let sandbox = sandbox();
    let owner = Owner { uid: 5, gid: 6 };
    let target = Target { owner, parents: true, mode: Some(0o600), ..target("/a/f") };
    sandbox.write(&target, b"x").unwrap();
    for name in ["a", "a/f"] {
        let found = fs::metadata(sandbox.root.join(name)).unwrap();
        assert_eq!((found.uid(), found.gid()), (5, 6), "{name}");
    }
    let entry = stat(&sandbox.tree, &path("/a/f"), true).unwrap();
    assert_eq!((entry.uid, entry.gid, entry.mode), (5, 6, 0o600));
}

#[test]
fn a_listing_is_sorted_and_follows_nothing() {
    let sandbox = sandbox();
    fs::write(sandbox.root.join("b"), "12345").unwrap();
    fs::create_dir(sandbox.root.join("a")).unwrap();
    symlink("/nowhere", sandbox.root.join("c")).unwrap();
    let entries = list(&sandbox.tree, &path("/"), false).unwrap();
    let seen: Vec<_> = entries.iter().map(|entry| (&entry.name[..], entry.kind())).collect();
    assert_eq!(
        seen,
        [
            (&b"a"[..], v1::FileKind::Directory),
            (b"b", v1::FileKind::File),
            (b"c", v1::FileKind::Symlink)
        ]
    );
    assert_eq!(entries[1].size, 5);
    assert_eq!(&entries[2].target[..], b"/nowhere");
    let link = stat(&sandbox.tree, &path("/c"), false).unwrap();
    assert_eq!((link.kind(), &link.target[..]), (v1::FileKind::Symlink, &b"/nowhere"[..]));
    assert_eq!(code(stat(&sandbox.tree, &path("/c"), true)), ErrorCode::FileNotFound);
    assert_eq!(code(list(&sandbox.tree, &path("/b"), false)), ErrorCode::NotADirectory);
}

#[test]
fn removal_takes_links_themselves_and_folders_only_when_told() {
    let sandbox = sandbox();
    fs::create_dir_all(sandbox.root.join("d/e")).unwrap();
    fs::write(sandbox.root.join("d/e/f"), "").unwrap();
    symlink("d", sandbox.root.join("link")).unwrap();
    remove(&sandbox.tree, &path("/link"), true).unwrap();
    assert!(sandbox.root.join("d/e/f").exists());
    assert_eq!(code(remove(&sandbox.tree, &path("/d"), false)), ErrorCode::DirectoryNotEmpty);
    symlink("../..", sandbox.root.join("d/out")).unwrap();
    remove(&sandbox.tree, &path("/d/"), true).unwrap();
    assert_eq!(sandbox.names(), [""; 0]);
    assert_eq!(code(remove(&sandbox.tree, &path("/d"), true)), ErrorCode::FileNotFound);
    assert!(remove(&sandbox.tree, &path("/"), true).is_err());
    assert!(remove(&sandbox.tree, &path("/x/.."), true).is_err());
}

#[test]
fn a_tree_of_any_depth_is_removed_with_few_descriptors() {
    let sandbox = sandbox();
    let mut folder = rustix::fs::open(&sandbox.root, OFlags::PATH, Mode::empty()).unwrap();
    for _ in 0..1_000 {
        rustix::fs::mkdirat(&folder, "deep", Mode::RWXU).unwrap();
        rustix::fs::mkdirat(&folder, "wide", Mode::RWXU).unwrap();
        folder = rustix::fs::openat(&folder, "deep", OFlags::PATH, Mode::empty()).unwrap();
    }
    remove(&sandbox.tree, &path("/deep"), true).unwrap();
    assert_eq!(sandbox.names(), ["wide"]);
}

#[test]
fn a_tail_is_counted_from_the_end_and_said_where_it_begins() {
    let sandbox = sandbox();
    fs::write(sandbox.root.join("f"), "0123456789").unwrap();
    for (tail, length, offset, expected) in [
        (3, None, 7, &b"789"[..]),
        (3, Some(2), 7, b"78"),
        (10, None, 0, b"0123456789"),
        (11, None, 0, b"0123456789"),
        (0, None, 10, b""),
        (u64::MAX, Some(1), 0, b"0"),
    ] {
        let part = Part { tail: Some(tail), length, ..Part::default() };
        let (bytes, first) = sandbox.read_part("/f", &part).unwrap();
        assert_eq!(bytes, expected, "{tail}");
        assert_eq!((first.offset, first.size), (Some(offset), Some(10)), "{tail}");
    }
}

#[test]
fn f5_a_file_is_read_on_only_while_it_is_the_same() {
    let sandbox = sandbox();
    let file = sandbox.root.join("f");
    let version = || sandbox.read_part("/f", &Part::default()).unwrap().1.version;
    let changes: [&dyn Fn(); 4] = [
        &|| fs::write(&file, "changed").unwrap(),
        &|| fs::write(&file, "longer content").unwrap(),
        &|| {
            fs::write(sandbox.root.join("g"), "longer content").unwrap();
            fs::rename(sandbox.root.join("g"), &file).unwrap();
        },
        &|| {
            // Back to what it was, with the time of the last write set back, too.
            let modified = fs::metadata(&file).unwrap().modified().unwrap();
            fs::write(&file, "changed content").unwrap();
            fs::write(&file, "longer content").unwrap();
            fs::File::options().write(true).open(&file).unwrap().set_modified(modified).unwrap();
        },
    ];
    fs::write(&file, "content").unwrap();
    for (number, change) in changes.iter().enumerate() {
        let before = version();
        let part = Part { offset: 2, version: before, ..Part::default() };
        assert!(!sandbox.read_part("/f", &part).unwrap().0.is_empty(), "{number}");
        std::thread::sleep(std::time::Duration::from_millis(20));
        change();
        let refused = sandbox.read_part("/f", &part);
        assert_eq!(refused.unwrap_err().code, ErrorCode::FileChanged, "{number}");
    }
}

#[test]
fn f1_a_file_is_held_back_until_it_is_in_its_place() {
    let sandbox = sandbox();
    fs::write(sandbox.root.join("f"), "old").unwrap();
    let folder = sandbox.tree.folder(b"/").unwrap();
    let file = NewFile::create(&sandbox.tree, Owner::ROOT, Arc::new(folder)).unwrap();
    rustix::io::write(&file, b"new").unwrap();
    assert!(!file.was_reachable());
    file.place(&sandbox.tree, b"f", &Mutex::default()).unwrap();
    assert_eq!(fs::read(sandbox.root.join("f")).unwrap(), b"new");
    assert_eq!(sandbox.names(), ["f"]);
}

#[test]
fn f1_where_files_must_have_names_what_was_changed_in_them_is_found_out() {
    let sandbox = sandbox();
    let folder = || Arc::new(sandbox.tree.folder(b"/").unwrap());
    let file = NewFile::create_named(&sandbox.tree, Owner::ROOT, folder()).unwrap();
    assert!(file.was_reachable());
    let name = sandbox.names().remove(0);
    let open = fs::File::options().append(true).open(sandbox.root.join(&name)).unwrap();
    assert_eq!(file.hold(), Err(rustix::io::Errno::BUSY));
    drop(open);
    file.hold().unwrap();
    // Taken away: another file now has its name.
    fs::write(sandbox.root.join("other"), "other").unwrap();
    fs::rename(sandbox.root.join("other"), sandbox.root.join(&name)).unwrap();
    let placed = file.place(&sandbox.tree, b"f", &Mutex::default());
    assert_eq!(placed, Err(rustix::io::Errno::STALE));
    let file = NewFile::create_named(&sandbox.tree, Owner::ROOT, folder()).unwrap();
    drop(file);
    assert_eq!(sandbox.names(), ["f"]);
}

#[test]
fn things_are_moved_over_others_only_when_told() {
    let sandbox = sandbox();
    fs::write(sandbox.root.join("a"), "a").unwrap();
    fs::write(sandbox.root.join("b"), "b").unwrap();
    fs::create_dir_all(sandbox.root.join("d/e")).unwrap();
    let move_ = |source: &str, target: &str, replace| {
        move_(&sandbox.tree, &path(source), &path(target), replace)
    };
    assert_eq!(code(move_("/a", "/b", false)), ErrorCode::FileExists);
    assert_eq!(fs::read(sandbox.root.join("b")).unwrap(), b"b");
    move_("/a", "/b", true).unwrap();
    assert_eq!(fs::read(sandbox.root.join("b")).unwrap(), b"a");
    assert_eq!(code(move_("/a", "/c", false)), ErrorCode::FileNotFound);
    assert_eq!(code(move_("/b", "/nowhere/b", false)), ErrorCode::FileNotFound);
    assert_eq!(code(move_("/d", "/d/e/f", false)), ErrorCode::InvalidArgument);
    assert_eq!(code(move_("/b", "/d", true)), ErrorCode::IsADirectory);
    assert_eq!(code(move_("/", "/d/f", false)), ErrorCode::FileFailed);
    move_("/d/", "/moved/", false).unwrap();
    symlink("../secret", sandbox.root.join("link")).unwrap();
    move_("/link", "/moved/link", false).unwrap();
    assert!(fs::symlink_metadata(sandbox.root.join("moved/link")).unwrap().is_symlink());
    assert_eq!(sandbox.names(), ["b", "moved"]);
}

#[test]
fn a_recursive_listing_has_paths_and_stays_inside() {
    let sandbox = sandbox();
    fs::create_dir_all(sandbox.root.join("d/e")).unwrap();
    fs::write(sandbox.root.join("d/e/f"), "").unwrap();
    symlink("..", sandbox.root.join("d/up")).unwrap();
    let entries = list(&sandbox.tree, &path("/"), true).unwrap();
    let names: Vec<_> = entries.iter().map(|entry| &entry.name[..]).collect();
    assert_eq!(names, [&b"d"[..], b"d/e", b"d/e/f", b"d/up"]);
}

/// An archive of a small tree with something of every kind in it.
fn archive(sandbox: &Sandbox) -> Vec<u8> {
    let top = sandbox.root.join("tree");
    fs::create_dir_all(top.join("d/empty")).unwrap();
    fs::write(top.join("d/file"), "content").unwrap();
    fs::hard_link(top.join("d/file"), top.join("hard")).unwrap();
    symlink("d/file", top.join("link")).unwrap();
    fs::write(top.join("n".repeat(200)), "long").unwrap();
    let sparse = fs::File::create(top.join("sparse")).unwrap();
    sparse.set_len(100_000).unwrap();
    std::os::unix::fs::FileExt::write_at(&sparse, b"middle", 50_000).unwrap();
    let mut archiving = Archiving::open(&sandbox.tree, path("/tree")).unwrap();
    let mut bytes = Vec::new();
    loop {
        let made = archiving.produce().unwrap();
        if made.is_empty() {
            return bytes;
        }
        made.iter().for_each(|message| bytes.extend_from_slice(&message.data));
    }
}

fn extract(sandbox: &Sandbox, archive: &[u8], cut: usize) -> Answer<v1::FilesExtractResponse> {
    let to = Destination { path: path("/copy"), owner: Some(Owner::ROOT) };
    let mut extraction = Extraction::begin(&sandbox.tree, to, &Arc::default())?;
    for chunk in archive.chunks(cut) {
        extraction.append(&[Bytes::copy_from_slice(chunk)])?;
    }
    extraction.finish()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn an_archive_that_is_cut_anywhere_is_unpacked_the_same(cut in 1_usize..3_000) {
        let sandbox = sandbox();
        let archive = archive(&sandbox);
        extract(&sandbox, &archive, cut).unwrap();
        let (first, second) = (
            list(&sandbox.tree, &path("/tree"), true).unwrap(),
            list(&sandbox.tree, &path("/copy"), true).unwrap(),
        );
        prop_assert_eq!(first, second);
        let content = fs::read(sandbox.root.join("copy/sparse")).unwrap();
        prop_assert_eq!(content, fs::read(sandbox.root.join("tree/sparse")).unwrap());
    }

    #[test]
    fn a_damaged_archive_is_unpacked_or_refused_and_touches_nothing_else(
        damage in prop::collection::vec((0_usize..20_000, any::<u8>()), 1..6),
        end in 0_usize..20_000,
    ) {
        let sandbox = sandbox();
        let mut archive = archive(&sandbox);
        let size = archive.len();
        for (place, byte) in damage {
            archive[place % size] = byte;
        }
        archive.truncate(end.max(1));
        let before = list(&sandbox.tree, &path("/tree"), true).unwrap();
        let _ = extract(&sandbox, &archive, 700);
        prop_assert_eq!(before, list(&sandbox.tree, &path("/tree"), true).unwrap());
        let outside = sandbox.root.parent().unwrap();
        prop_assert_eq!(fs::read_dir(outside).unwrap().count(), 2);
        prop_assert_eq!(fs::read(outside.join("secret")).unwrap(), b"secret");
    }

    #[test]
    fn garbage_is_refused(bytes in prop::collection::vec(any::<u8>(), 0..3_000)) {
        prop_assert!(extract(&sandbox(), &bytes, 100).is_err());
    }
}
