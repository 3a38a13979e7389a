"""Score the users of a Spark DataFrame with `rescore`, one process for each task.

    from rescore_spark import Options, rescored

    scored = rescored(frame, Options(
        fields={"name": "full_name", "email": "email", "ip": "device.ip", "user_agent": "agent"},
        arguments=["--base-url", "https://api.example.com", "--service-id", "my-app",
                   "--api-key-file", "{files}/api-key", "--ledger", "/var/lib/rescore/answers.ledger"],
    ))
    scored.write.parquet("scored")

The frame comes back with four more columns: `transaction_id`, `risk_score`, `decision`, and `reason`, which says why a row
has no verdict. Order and types of all other columns stay. Only the fields of the request leave Spark.

README.md, beside this file, says when to use it, how to submit it, and what each failure costs.
"""

from dataclasses import replace

from pyspark import SparkFiles
from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import DoubleType, StringType, StructType

from rescore_arrow import SENT, Options, scored_batches

__all__ = ["Options", "rescored"]


def rescored(frame: DataFrame, options: Options) -> DataFrame:
    """The frame with the columns `transaction_id`, `risk_score`, `decision` and `reason`.

    Nothing is sent before an action needs the rows, and each further action sends them again: write or persist them first.
    """
    added = options.added(frame.columns)
    schema = StructType(list(frame.schema.fields))
    for name in added:
        schema.add(name, DoubleType() if name.endswith("risk_score") else StringType())
    # Spark itself finds nested fields, evaluates expressions and makes text of them.
    sent = [(F.col(at) if isinstance(at, str) else at).cast("string").alias(SENT + name) for name, at in options.fields.items()]
    # Columns of Spark cannot go to the executors; only their order matters there.
    there = replace(options, fields=dict.fromkeys(options.fields))
    return frame.select("*", *sent).mapInArrow(lambda batches: scored_batches(batches, there, SparkFiles.getRootDirectory()), schema)
