# syntax=docker/dockerfile:1
# Builds rescore, and puts the program alone into an image that runs as an ordinary user.
#
#   docker build -t rescore .
#   docker run --rm --read-only --tmpfs /tmp -v "$PWD:/data" rescore run users.csv -o scored.csv --sandbox

FROM rust:1.89-slim-bookworm AS build
WORKDIR /build
COPY . .
RUN cargo build --release --locked --bin rescore

FROM debian:bookworm-slim
# hadolint ignore=DL3008
RUN apt-get update \
    && apt-get install -y --no-install-recommends ca-certificates tzdata \
    && rm -rf /var/lib/apt/lists/* \
    && useradd --system --uid 10001 --no-create-home rescore
COPY --from=build /build/target/release/rescore /usr/local/bin/rescore
COPY LICENSE-APACHE LICENSE-MIT /usr/share/doc/rescore/
USER 10001:10001
# Inputs, outputs and the ledger of paid answers, which must outlive the container. Nothing else is written, except temporary
# files to /tmp.
WORKDIR /data
VOLUME /data
ENV RESCORE_LEDGER=/data/rescore.ledger
# Where a run reports how it is, for `docker exec CONTAINER rescore status`.
ENV XDG_STATE_HOME=/tmp
# `docker stop` sends SIGTERM, and calls in flight have 20 s to finish: give the container `--stop-timeout 60`.
ENTRYPOINT ["rescore"]
CMD ["--help"]
