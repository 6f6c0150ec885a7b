"""What the demonstration computes about one Python source file, in the worker and again to check the worker."""

import ast
import hashlib
from pathlib import Path


def inspect_file(path: str) -> dict[str, object]:
    """Hash a file and count what its syntax tree holds; a file that is no valid Python says so."""
    content = Path(path).read_bytes()
    found: dict[str, object] = {"sha256": hashlib.sha256(content).hexdigest(), "bytes": len(content)}
    try:
        tree = ast.parse(content)
    except (SyntaxError, ValueError) as error:
        return found | {"problem": type(error).__name__}
    nodes = list(ast.walk(tree))
    return found | {
        "nodes": len(nodes),
        "functions": sum(isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) for node in nodes),
        "classes": sum(isinstance(node, ast.ClassDef) for node in nodes),
    }
