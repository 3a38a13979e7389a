"""Spark in two processes: values and types stay, and a task that runs again pays for nothing twice."""

from __future__ import annotations

import os
import shutil
import signal
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from conftest import Start
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

import rescore.spark

if shutil.which("java") is None:
    pytest.skip("Spark needs Java", allow_module_level=True)

# Each user is in two rows of different partitions. Of every 500 rows, one lacks its address, and one has no email address.
ROWS, USERS, IN_FLIGHT = 4_000, 2_000, 8
INVALID = 2 * USERS // 500
FIELDS = {"name": "full_name", "email": "email", "ip": "device.ip", "user_agent": "device.agent"}
ADDED = ["transaction_id", "risk_score", "decision", "reason"]


@pytest.fixture(scope="module")
def spark() -> Iterator[SparkSession]:
    os.environ["PYSPARK_PYTHON"] = sys.executable
    # A task may fail three times. For a short job, what Java's compiler would win is lost.
    builder = SparkSession.builder.master("local[2,4]").config("spark.ui.enabled", "false")
    builder = builder.config("spark.sql.execution.arrow.maxRecordsPerBatch", "300")
    session = builder.config("spark.driver.extraJavaOptions", "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC").getOrCreate()
    session.sparkContext.setLogLevel("OFF")
    yield session
    session.stop()


def users(spark: SparkSession) -> DataFrame:
    number, among = F.col("id") % USERS, F.col("id") % 500
    text = number.cast("string")
    return spark.range(0, ROWS, 1, 4).select(
        "id",
        F.concat(F.lit("User "), text).alias("full_name"),
        F.when(among == 7, "nobody").otherwise(F.concat(text, F.lit("@example.com"))).alias("email"),
        F.struct(F.when(among != 3, "192.0.2.1").alias("ip"), F.lit("curl/8").alias("agent")).alias("device"),
        (F.col("id") * F.lit("12345678901.0001").cast("decimal(20,4)")).cast("decimal(30,4)").alias("balance"),
        F.when(number % 3 == 0, F.timestamp_micros(F.col("id") * 1_000_003)).alias("seen"),
        F.array(text, F.lit('ä,"\n')).alias("tags"),
        F.lit(None).cast("int").alias("nothing"),
    )


def test_all_columns_stay_and_four_are_added(spark: SparkSession, service: Start, tmp_path: Path) -> None:
    one, frame = service(), users(spark)
    ledger = str(tmp_path / "shared.ledger")
    (tmp_path / "key").write_text("k\n")
    (tmp_path / "key").chmod(0o644)
    spark.sparkContext.addFile(str(tmp_path / "key"))
    del one.options["api_key"]
    options = {**one.options, "ledger": ledger, "api_key_file": "{files}/key"}
    rescore.spark.score(frame, fields=FIELDS, **options).write.parquet(str(tmp_path / "scored"))
    scored = spark.read.parquet(str(tmp_path / "scored"))
    assert scored.columns == frame.columns + ADDED
    assert [of for name, of in scored.dtypes if name in ADDED] == ["string", "double", "string", "string"]
    assert scored.select(frame.columns).orderBy("id").collect() == frame.orderBy("id").collect()
    reasons = {row["reason"]: row["count"] for row in scored.groupBy("reason").count().collect()}
    assert reasons == {None: ROWS - 2 * INVALID, "missing_ip": INVALID, "invalid_email": INVALID}
    no_verdict = " OR ".join(f"{name} IS NULL" for name in ADDED[:3])
    assert scored.where(no_verdict).count() == 2 * INVALID
    same = scored.where("reason IS NULL").groupBy("full_name").agg(F.count_distinct("transaction_id").alias("ids"))
    assert {row["ids"] for row in same.collect()} == {1}, "a user's answer is that of this user"
    # A frame is computed again for each action. That costs look-ups.
    assert one.billed() == USERS - INVALID
    assert rescore.spark.score(frame, fields=FIELDS, **options).where("decision IS NOT NULL").count() == ROWS - 2 * INVALID
    assert one.billed() == USERS - INVALID


def children(mark: str) -> list[int]:
    """The processes of `rescore run` with this argument."""
    found = []
    for entry in Path("/proc").iterdir():
        try:
            words = (entry / "cmdline").read_bytes() if entry.name.isdigit() else b""
        except OSError:
            continue
        found += [int(entry.name)] if b"\0run\0" in words and mark.encode() in words else []
    return found


def test_a_child_that_is_killed_costs_at_most_its_calls_in_flight(spark: SparkSession, service: Start, tmp_path: Path) -> None:
    one = service("--latency", "10ms")
    del one.options["api_key"]
    options = {**one.options, "ledger": str(tmp_path / "shared.ledger"), "concurrency": IN_FLIGHT, "timeout": "1s"}

    killed: list[int] = []

    def kill() -> None:
        while one.billed() < 200:
            time.sleep(0.01)
        killed.append(children(str(tmp_path))[0])
        os.kill(killed[0], signal.SIGKILL)

    threading.Thread(target=kill).start()
    environment = {"RESCORE_API_KEY": "k"}
    scored = rescore.spark.score(users(spark), fields=FIELDS, environment=environment, **options)
    assert scored.where("decision IS NOT NULL").count() == ROWS - 2 * INVALID
    assert killed
    assert USERS - INVALID <= one.billed() <= USERS - INVALID + 2 * IN_FLIGHT


def test_a_task_without_rows_starts_no_child_and_what_cannot_work_is_refused_at_once(spark: SparkSession) -> None:
    frame = users(spark)
    assert rescore.spark.score(frame.limit(0), fields=FIELDS, program="/nowhere").count() == 0
    for options in [{"fields": {"nam": "id"}}, {"fields": FIELDS, "api_key": "k"}]:
        with pytest.raises(ValueError):
            rescore.spark.score(frame, **options)
    with pytest.raises(ValueError, match="prefix"):
        rescore.spark.score(frame.withColumn("Decision", F.lit("")), fields=FIELDS)


def test_floats_are_plain_decimals(spark: SparkSession, tmp_path: Path) -> None:
    phone = F.lit(12025550123.0) + F.col("id")
    frame = spark.range(0, 4, 1, 2).select("id", F.lit("Ann Lee").alias("name"), phone.alias("phone"), phone.cast("float").alias("short"))
    others = {"set": {"ip": "192.0.2.1", "user_agent": "curl/8"}, "ledger": str(tmp_path / "shared.ledger"), "phone_region": "US", "sandbox": True}
    for fields in [{"phone": "phone", "name": "name"}, {"name": "name", "phone": F.col("phone")}]:
        scored = rescore.spark.score(frame, fields=fields, **others)
        assert [row.reason for row in scored.collect()] == [None] * 4
        assert scored.drop(*ADDED).collect() == frame.collect()
