//! Runs over several files, each to a file of its name in a directory.

mod continuing;
mod files;
mod names;

use std::fs;

use crate::support::process::{Place, Program};
use crate::support::server::{Request, Server};

/// A directory with these files in `parts`.
fn parts<const N: usize>(files: [(&str, &str); N]) -> Place {
    let place = Place::new();
    fs::create_dir(place.path("parts")).unwrap();
    for (name, content) in files {
        place.write(&format!("parts/{name}"), content);
    }
    place
}

/// A CSV file of the users from this number up to that one: the same user in any file.
fn csv(from: usize, to: usize) -> String {
    let row = |user| format!("{user},User {user},user{user}@example.com,192.0.2.1,curl/8\n");
    let rows: String = (from..=to).map(row).collect();
    format!("id,name,email,ip,user_agent\n{rows}")
}

/// A run of all parts into `scored`, with these arguments.
fn run<'a, const N: usize>(place: &'a Place, server: &'a Server, args: [&str; N]) -> Program<'a> {
    place.run(server, "parts/* --output-dir scored").args(args)
}

/// The names in a folder but for those of its ledger, sorted.
fn names(place: &Place, folder: &str) -> Vec<String> {
    let entries = fs::read_dir(place.path(folder)).unwrap();
    let mut names: Vec<_> = entries
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .filter(|name| !name.starts_with("rescore.ledger"))
        .collect();
    names.sort();
    names
}

/// The users that the server was asked about, in this order.
fn asked(server: &Server) -> Vec<String> {
    server.requests().iter().map(Request::name).collect()
}
