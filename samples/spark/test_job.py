"""One Spark job of the test: scores the users and checks what comes back. Started by `test_situations.py`."""

import json
import sys
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as parquet
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

sys.path.insert(0, str(Path(__file__).parent))
from rescore_arrow import ADDED
from rescore_spark import Options, rescored

ROWS, USERS = 20_000, 10_000
# Every 500th row lacks its address, and every 500th has an email address that is not one.
INVALID = 2 * ROWS // 500
# For a machine that is busy: what the compiler and the collector would win in a long job, they lose in a short one.
JAVA = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"


def session(master: str, work: Path) -> SparkSession:
    builder = SparkSession.builder.master(master).appName("rescore")
    for key, value in {
        "spark.ui.enabled": "false",
        "spark.driver.memory": "1g",
        "spark.driver.extraJavaOptions": JAVA,
        "spark.executor.extraJavaOptions": JAVA,
        "spark.sql.shuffle.partitions": "4",
        "spark.sql.execution.arrow.maxRecordsPerBatch": "1000",
        "spark.archives": f"{work}/rescore.tar.gz#rescore",
        "spark.files": ",".join(str(file) for file in [work / "api-key", *work.glob("pgpass")]),
    }.items():
        builder = builder.config(key, value)
    spark = builder.getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    # As `--py-files` does.
    for module in ("rescore_arrow.py", "rescore_spark.py"):
        spark.sparkContext.addPyFile(str(Path(__file__).parent / module))
    return spark


def users(spark: SparkSession):
    """Each user is in two rows of different partitions. All kinds of types are there, some of them null."""
    number = F.col("id") % USERS
    text = number.cast("string")
    is_first = F.col("id") % 500
    return spark.range(0, ROWS, 1, 8).select(
        "id",
        F.concat(F.lit("User "), text).alias("full_name"),
        F.when(is_first == 7, "nobody").otherwise(F.concat(F.lit("u"), text, F.lit("@example.com"))).alias("email"),
        F.struct(
            F.when(is_first != 3, F.concat(F.lit("192.0.2."), (number % 250).cast("string"))).alias("ip"),
            F.lit("curl/8").alias("agent"),
        ).alias("device"),
        (F.col("id") * F.lit("12345678901.0001").cast("decimal(20,4)")).cast("decimal(30,4)").alias("balance"),
        F.when(number % 3 == 0, F.timestamp_micros(F.col("id") * 1_000_003)).alias("seen"),
        F.array(text, F.lit("ä,\"\n")).alias("tags"),
        F.date_add(F.lit("1970-01-01").cast("date"), number.cast("int")).alias("born"),
        F.lit(None).cast("int").alias("nothing"),
    )


def main() -> None:
    master, work, arguments, output = sys.argv[1], Path(sys.argv[2]), json.loads(sys.argv[3]), sys.argv[4]
    environment = {"PGPASSFILE": "{files}/pgpass"} if (work / "pgpass").exists() else {}
    spark = session(master, work)
    frame = users(spark)
    fields = {"name": "full_name", "email": "email", "ip": "device.ip", "user_agent": "device.agent"}
    rescored(frame, Options(fields=fields, arguments=arguments, environment=environment)).write.parquet(output)
    assert spark.read.parquet(output).schema.simpleString().startswith(frame.schema.simpleString()[:-1]), "types stay"
    check(frame, output)
    empty = rescored(frame.limit(0), Options(fields=fields, program="/nowhere", arguments=arguments))
    assert empty.count() == 0, "a task without rows starts no child"
    spark.stop()


def check(frame, output: str) -> None:
    # Read without Spark, which would take longer for this than for the job.
    files = [parquet.read_table(file) for file in sorted(Path(output).glob("*.parquet"))]
    for file in files:
        assert pc.all(pc.equal(pc.sort_indices(file["id"]), pa.array(range(len(file)), pa.uint64()))).as_py(), "the order stays"
    scored = pa.concat_tables(files).sort_by("id")
    before = frame.toArrow().sort_by("id")
    own = scored.select(before.column_names)
    # Files have no names for time zones and for the elements of lists.
    assert own.cast(before.schema).equals(before), "every value stays"
    assert [str(scored.schema.field(name).type) for name in ADDED] == ["string", "double", "string", "string"], scored.schema
    reasons = {it["values"]: it["counts"] for it in pc.value_counts(scored["reason"]).to_pylist()}
    assert reasons == {"missing_ip": INVALID // 2, "invalid_email": INVALID // 2, None: ROWS - INVALID}, reasons
    scores = {}
    for row in scored.select(["full_name", *ADDED]).to_pylist():
        values = [row[name] for name in ADDED[:3]]
        assert (None not in values) if row["reason"] is None else values == [None] * 3, row
        if row["reason"] is None:
            assert scores.setdefault(row["full_name"], values) == values, "a user's answer is that of this user"


if __name__ == "__main__":
    main()
