//! The window: what it hides, how much is in it, and when finished rows are written.

use super::harness::*;

/// The simulated time of 2,000 rows of 100 ms, 8 concurrently, of which 1 in 100 backs off four times, 4 s in all.
async fn simulated_time(window: usize) -> Duration {
    let good = Scripted::new(ScriptedResult::Verdict.after(100));
    let sick = [ScriptedResult::Status(500).after(100); 4];
    let engine = engine(8, with_rows(good, (50..2_000).step_by(100), &sick));
    let mut around = Surroundings::rows(2_000);
    around.window.rows = window;
    let ran = run_to_end(&engine, around).await;
    assert_eq!((ran.reason(), ran.counts.scored()), (None, 2_000));
    ran.elapsed
}

#[tokio::test(start_paused = true)]
async fn a_window_beyond_the_concurrency_hides_back_offs() {
    let (narrow, wide) = (simulated_time(8).await, simulated_time(1_024).await);
    assert!(wide < Duration::from_secs(30), "{wide:?}; at best 26 s");
    assert!(narrow > 2 * wide, "{narrow:?} and {wide:?}");
}

#[tokio::test(start_paused = true)]
async fn while_the_writer_stalls_the_window_keeps_to_its_bytes() {
    let log = Log::default();
    let engine = Fixture::new(Scripted::new(GOOD)).build_with(|it| {
        it.concurrency = 8;
        it.events = log.stream();
    });
    let around = Surroundings {
        write_delay: Duration::from_secs(3_600),
        window: WindowSize {
            bytes: 10 * ROW_BYTES,
            ..WINDOW
        },
        ..Surroundings::rows(500)
    };
    run_to_end(&engine, around).await;
    let events = log.events();
    let before = events.iter().filter(|(at, _)| at.as_secs() < 3_600);
    let admitted = before.filter(|(_, event)| matches!(event, Event::RowAdmitted(_)));
    // As much as fits into the window is in it, in each slot of the channel and in the writer's hands.
    let (admitted, most) = (admitted.count(), (1 + BATCHES + 1) * 10);
    assert!(admitted <= most, "{admitted} rows instead of {most}");
}

#[tokio::test(start_paused = true)]
async fn a_finished_row_is_written_while_the_reader_waits() {
    let log = Log::default();
    let engine = Fixture::new(Scripted::new(GOOD)).build_with(|it| it.events = log.stream());
    let mut around = Surroundings::of(batches(asked(2, &[]), &[1]));
    around.read_delay = Duration::from_secs(60);
    let ran = run_to_end(&engine, around).await;
    assert_eq!(ran.hand_overs, [1, 1]);
    let events = log.events();
    let written = |(_, event): &&(Duration, Event)| matches!(event, Event::RowsWritten { .. });
    let first = events.iter().find(written).unwrap().0;
    assert!(first < Duration::from_millis(60_020), "{first:?}");
}

#[tokio::test(start_paused = true)]
async fn blank_lines_after_the_last_row_are_written_unless_the_run_stopped() {
    for (row, trailer) in [(GOOD, "\n\n"), (KEY_REFUSED, "")] {
        let mut around = Surroundings::rows(3);
        if let Some(Read::Rows(batch)) = around.read.first_mut() {
            batch.trailer = Bytes::from_static(b"\n\n");
        }
        let ran = run_to_end(&engine(4, Scripted::new(row)), around).await;
        assert_eq!(ran.trailer, trailer);
    }
}

#[tokio::test(start_paused = true)]
async fn rows_between_which_others_were_dropped_get_their_own_verdicts_in_order() {
    // Every seventh row is slow, so that verdicts come in any order.
    let slow = [ScriptedResult::Verdict.after(1_000)];
    let service = Scripted::new(ScriptedResult::Verdict.after(10));
    let engine = engine(8, with_rows(service, (0..=300).step_by(7), &slow));
    let mut around = Surroundings::of(batches(asked(300, &[5]), &[32]));
    around.window.rows = 64;
    let mut number = RowNumber::FIRST;
    let mut numbers = Vec::new();
    for message in &mut around.read {
        let Read::Rows(batch) = message else {
            continue;
        };
        for (row, skipped) in batch.rows.iter_mut().zip((0..4).cycle()) {
            number = (0..=skipped).fold(number, |number, _| number.next());
            row.number = number;
            numbers.push(number.get());
        }
    }
    let ran = run_to_end(&engine, around).await;
    assert_eq!((ran.rows(), ran.counts.scored()), (numbers, 299));
}

/// The HTTP library's task for a connection sends what a call gives it, and must get its turn between ours.
#[tokio::test(start_paused = true)]
async fn a_call_is_sent_although_rows_that_need_none_come_without_end() {
    const ROWS: u64 = 60;
    let engine = engine(1, Scripted::new(GOOD));
    let need_none: Vec<_> = (2..=ROWS).collect();
    let mut around = Surroundings::of(batches(asked(ROWS, &need_none), &[1]));
    around.read_ahead = around.read.len();
    let read_before = std::cell::Cell::new(ROWS);
    let connection = async {
        until_in_no_time(&engine, |counts| counts.calls.sent > 0).await;
        read_before.set(engine.counts().rows.read);
        std::future::pending::<()>().await;
    };
    let ran = run_with(&engine, around, connection).await;
    assert_eq!((ran.reason(), ran.rows().len() as u64), (None, ROWS));
    assert!(read_before.get() < ROWS / 2, "{}", read_before.get());
}
