#!/bin/sh
# Runs the sample against `rescore sandbox` with a real Spark, and prints what each situation has paid. Nothing is sent
# anywhere. Needs Java 17, Python 3.9 or later with venv, and a rescore that was built: `cargo build --release`.
#
#   samples/spark/test.sh [all|file|postgresql [SITUATION…]]
#
# The first word says where the ledger is: in a file; on a PostgreSQL server that the test starts for itself, if `initdb` is
# here; by default first the one, then the other. The situations are local, cluster, killed, cancelled and two.
# RESCORE: the program, by default the release build. SPARK_VENV: where PySpark is installed, kept between runs.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
RESCORE=${RESCORE:-$here/../../target/release/rescore}
SPARK_VENV=${SPARK_VENV:-${TMPDIR:-/tmp}/spark-venv}
if [ ! -x "$RESCORE" ]; then
    echo "$0: no program at $RESCORE; build it, or name one with RESCORE" >&2
    exit 2
fi
case ${1:-all} in
    all | file | postgresql) ;;
    *) echo "$0: \`$1\` is no kind of ledger: file, postgresql, all" >&2; exit 2 ;;
esac
[ -x "$SPARK_VENV/bin/pip" ] || python3 -m venv "$SPARK_VENV"
# Spark asks for pandas, which the sample does not use.
packages="pyspark==4.3.0 pyarrow==26.0.1 pandas==2.3.3"
if [ "$(cat "$SPARK_VENV/packages" 2>/dev/null)" != "$packages" ]; then
    # shellcheck disable=SC2086 # One word for each package.
    "$SPARK_VENV/bin/pip" install --quiet $packages
    echo "$packages" > "$SPARK_VENV/packages"
fi
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
# What would be given to `spark-submit --archives rescore.tar.gz#rescore`.
mkdir "$work/program"
cp "$RESCORE" "$work/program/rescore"
tar -czf "$work/rescore.tar.gz" -C "$work/program" rescore
PYSPARK_PYTHON=$SPARK_VENV/bin/python "$SPARK_VENV/bin/python" "$here/test_situations.py" "$work" "${@:-all}"
