"""Every operation against every other, the first stopped after each of its statements, then committed or aborted."""
