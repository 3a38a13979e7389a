"""One Spark job of the test: scores the users and checks what comes back. Started by `test_situations.py`."""

import json
import sys
from pathlib import Path

from pyspark.sql import SparkSession
from pyspark.sql import functions as F

sys.path.insert(0, str(Path(__file__).parent))
from rescore_spark import Options, rescored

ROWS, USERS = 20_000, 10_000
# Every 500th row lacks its address, and every 500th has an email address that is not one.
INVALID = 2 * ROWS // 500


def session(master: str, work: Path) -> SparkSession:
    builder = SparkSession.builder.master(master).appName("rescore")
    for key, value in {
        "spark.ui.enabled": "false",
        "spark.driver.memory": "1g",
        "spark.sql.shuffle.partitions": "4",
        "spark.sql.execution.arrow.maxRecordsPerBatch": "1000",
        "spark.archives": f"{work}/rescore.tar.gz#rescore",
        "spark.files": f"{work}/api-key",
        "spark.submit.pyFiles": str(Path(__file__).parent / "rescore_spark.py"),
    }.items():
        builder = builder.config(key, value)
    spark = builder.getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
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
    spark = session(master, work)
    frame = users(spark)
    fields = {"name": "full_name", "email": "email", "ip": "device.ip", "user_agent": "device.agent"}
    rescored(frame, Options(fields=fields, arguments=arguments)).write.parquet(output)
    check(frame, spark.read.parquet(output))
    empty = rescored(frame.limit(0), Options(fields=fields, program="/nowhere", arguments=arguments))
    assert empty.count() == 0, "a task without rows starts no child"
    spark.stop()


def check(frame, scored) -> None:
    own = scored.select(frame.columns)
    assert own.schema.simpleString() == frame.schema.simpleString(), own.schema
    assert own.exceptAll(frame).count() == 0 and frame.exceptAll(own).count() == 0, "every value stays"
    assert [field.dataType.simpleString() for field in scored.schema.fields[-4:]] == ["string", "double", "string", "string"]
    # Each of the eight files is one partition, in its order.
    ordered = scored.select("id", F.input_file_name().alias("file")).collect()
    places = {}
    for row in ordered:
        assert places.get(row.file, -1) < row.id, "the order stays"
        places[row.file] = row.id
    reasons = {row.reason: row["count"] for row in scored.groupBy("reason").count().collect()}
    assert reasons == {"missing_ip": INVALID // 2, "invalid_email": INVALID // 2, None: ROWS - INVALID}, reasons
    bare = scored.where("reason is not null and (transaction_id is not null or risk_score is not null or decision is not null)")
    whole = scored.where("reason is null and transaction_id is not null and risk_score is not null and decision is not null")
    assert (bare.count(), whole.count()) == (0, ROWS - INVALID)
    mixed = scored.where("reason is null").groupBy("full_name").agg(F.countDistinct("risk_score").alias("scores"))
    assert mixed.where("scores > 1").count() == 0, "a user's score is that of this user"


if __name__ == "__main__":
    main()
