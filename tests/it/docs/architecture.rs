//! The page of the architecture names only files that exist.

use std::path::Path;

use crate::docs::documents::{code_spans, document, root};

#[test]
fn the_architecture_names_files_that_exist() {
    let page = document("docs/architecture.md");
    let is_path = |span: &String| span.contains('/') || Path::new(span).extension().is_some();
    let paths: Vec<_> = code_spans(&page).into_iter().filter(is_path).collect();
    assert!(paths.len() > 50, "the test itself has gone blind");
    // These are not the names of particular files.
    let folders = ["", "src", "tests/it", "docs"];
    for path in paths
        .iter()
        .filter(|path| !["mod.rs", ".rs", "OUTPUT.partial"].contains(&path.as_str()))
    {
        let exists = |folder: &&str| root().join(folder).join(path).exists();
        assert!(folders.iter().any(exists), "{path}");
    }
}
