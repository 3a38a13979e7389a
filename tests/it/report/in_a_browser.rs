//! What Chromium makes of a page, where it is installed: nothing leaves, nothing overflows, and it prints on two pages.

use std::fs;
use std::net::TcpListener;
use std::path::Path;
use std::process::{Command, Stdio};

use super::has;
use crate::support::process::Place;

/// The widths that must be readable.
const WIDTHS: [u32; 4] = [380, 400, 700, 1200];

/// Chromium without anything that talks to anybody, if it is installed; says so if it is not.
fn chromium(place: &Place) -> Option<Command> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let names = ["chromium", "chromium-browser", "google-chrome"];
    let found = std::env::split_paths(&path)
        .flat_map(|folder| names.map(|name| folder.join(name)))
        .find(|file| file.exists());
    let Some(found) = found else {
        println!("skipped: none of {names:?} is on PATH");
        return None;
    };
    let mut command = Command::new(found);
    command
        .args([
            "--headless",
            "--no-sandbox",
            "--disable-gpu",
            "--disable-quic",
            "--no-first-run",
            "--disable-background-networking",
            "--disable-component-update",
            "--disable-sync",
            "--window-size=1500,2000",
        ])
        .arg(format!(
            "--user-data-dir={}",
            place.path("profile").display()
        ))
        .stderr(Stdio::null());
    Some(command)
}

/// A page with everything: verdicts of the samples by country, compared with last month's, and the run.
fn page(place: &Place) -> String {
    let samples = Path::new(env!("CARGO_MANIFEST_DIR")).join("samples");
    for name in ["users.csv", "last-month.csv"] {
        fs::copy(samples.join(name), place.path(name)).unwrap();
    }
    let args = "run users.csv -o scored.csv --sandbox --summary summary.json";
    let price = "--price 0.004EUR";
    place.rescore(args).args(price).done();
    let long = "a name without an end and without a space".replace(' ', "");
    let scored = place
        .text("scored.csv")
        .replacen(",DE,", &format!(",{long},"), 1);
    place.write("scored.csv", scored);
    let args = "report scored.csv -o r.html --against last-month.csv --key id --by country --by note \
        --run summary.json --outcome country=US,TR --catch 90% --approve-max 3 --review-max 6";
    place.rescore(args).exits(0);
    place.text("r.html")
}

/// The page in frames of all widths, and a script outside of it that measures them. What is wider than its own box scrolls
/// within that box, and is meant to.
fn measured(page: &str, port: u16) -> String {
    let page = page.replace('&', "&amp;").replace('"', "&quot;");
    let frame = |width: &u32| {
        format!("<iframe width=\"{width}\" height=\"3000\" srcdoc=\"{page}\"></iframe>")
    };
    let frames: String = WIDTHS.iter().map(frame).collect();
    format!(
        r#"<!DOCTYPE html><body>{frames}<script>
        onload = async () => {{
            const said = [];
            for (const frame of document.querySelectorAll("iframe")) {{
                const page = frame.contentDocument, root = page.documentElement;
                let blocked = 0;
                page.addEventListener("securitypolicyviolation", () => blocked += 1);
                const wide = [...page.querySelectorAll("body *")].filter(element =>
                    !element.closest(".scroll, svg, details") &&
                    element.getBoundingClientRect().right > root.clientWidth + 0.5);
                const cut = [...page.querySelectorAll(".scroll")].filter(element =>
                    element.scrollWidth > element.clientWidth && !element.closest("details"));
                const loads = page.querySelectorAll("[src],[href],[srcset],[data],link,script,img,iframe,object,embed,video,audio");
                const loaded = frame.contentWindow.performance.getEntriesByType("resource").length;
                const image = page.createElement("img"), script = page.createElement("script");
                image.src = "http://127.0.0.1:{port}/image";
                script.textContent = "parent.ran = true";
                page.body.append(image, script);
                await new Promise(done => setTimeout(done, 300));
                said.push([frame.width, "overflow", root.scrollWidth - root.clientWidth, "wide", wide.length, "cut", cut.length,
                    "loads", loads.length, "loaded", loaded, "blocked", blocked, "ran", window.ran ?? false,
                    "sections", page.querySelectorAll("section").length].join(" "));
            }}
            document.body.textContent = said.join("; ");
        }};
        </script></body>"#
    )
}

#[test]
fn a_browser_loads_nothing_and_nothing_overflows_at_any_width() {
    let place = Place::new();
    let Some(mut chromium) = chromium(&place) else {
        return;
    };
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    listener.set_nonblocking(true).unwrap();
    let port = listener.local_addr().unwrap().port();
    let page = page(&place);
    place.write("measured.html", measured(&page, port));
    let output = chromium
        .args(["--virtual-time-budget=20000", "--dump-dom"])
        .arg(place.path("measured.html"))
        .output()
        .unwrap();
    let dom = String::from_utf8_lossy(&output.stdout);
    for width in WIDTHS {
        // The policy blocks the picture and the script that the test adds, so it would block others.
        let expected = format!(
            "{width} overflow 0 wide 0 cut 0 loads 0 loaded 0 blocked 2 ran false sections 7"
        );
        has(&dom, &[&expected]);
    }
    assert!(listener.accept().is_err(), "a request left");
}
