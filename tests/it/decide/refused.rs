//! What is refused before anything is written.

use crate::support::process::Place;

const SCORED: &str = "transaction_id,risk_score,decision\nt,1,approve\n";

#[test]
fn the_first_row_of_a_scored_file_without_a_header_is_never_printed() {
    for (row, words) in [
        (
            "1,Ann Lee,ann@example.com,+4930123001,t,1,approve",
            "7 columns (not shown: ",
        ),
        ("Ann Lee,Berlin,t,1,approve", "5 columns (not shown: "),
    ] {
        let place = Place::with("scored.csv", format!("{row}\n"));
        place.write("header.csv", SCORED);
        for arguments in [
            "decide scored.csv --what-if",
            "decide scored.csv -o out.csv",
            "report scored.csv -o out.html",
            "report header.csv --against scored.csv --key decision -o out.html",
        ] {
            let done = place.rescore(arguments).exits(2);
            done.says(words);
            for value in ["Ann", "example", "Berlin"] {
                done.silent_about(value);
            }
        }
        let done = place.rescore("decide scored.csv --what-if --no-header");
        done.exits(0);
    }
}
