"""The operations on the ledger: every change of a task's rows is made by one of these modules, and nowhere else.

Each takes a list, runs in one short transaction, and answers per item. Repeating one gives the same answer. All of them
lock first and decide in a later statement, in one order: channel, intent, lease, attempt, task, ids ascending in each.
A lock out of that order (acquire takes intents after it has settled leases) skips what is held, so it never waits.
"""
