"""Fetch ElasticMQ, or say what is missing and exit with 1."""

import sys

from ledgence_project.elasticmq import ElasticMQMissing, fetch


def main() -> int:
    try:
        folder = fetch()
    except ElasticMQMissing as error:
        print(error, file=sys.stderr)
        return 1
    print(f"ElasticMQ is in {folder}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
