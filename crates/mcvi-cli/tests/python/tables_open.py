"""Open the same table as CSV and as Arrow with whatever is there: pandas, pyarrow, polars."""

import sys

csv, arrow = sys.argv[1:]
names, first = ["theta[0]", "b[1,2]", "ü"], [0.1, float("-inf"), 1e300]


def check(columns, rows, values, who):
    assert list(columns) == names, (who, columns)
    assert rows == 1000 and [float(v) for v in values] == first, (who, rows, values)
    print("opened with", who)


import pandas as pd

a = pd.read_csv(csv)
check(a.columns, len(a), a.iloc[0], f"pandas {pd.__version__} (CSV)")
assert a.isna().sum().sum() == 1
import pyarrow
import pyarrow.feather
import pyarrow.ipc

b = pd.read_feather(arrow)
check(b.columns, len(b), b.iloc[0], f"pandas {pd.__version__} (Feather)")
assert a.equals(b)
table = pyarrow.feather.read_table(arrow, memory_map=True)
table.validate(full=True)
check(table.column_names, table.num_rows, [c[0].as_py() for c in table.columns], f"pyarrow {pyarrow.__version__}")
with open(arrow, "rb") as file:
    file.seek(8)
    stream = pyarrow.ipc.open_stream(file).read_all()
assert stream.to_pandas().equals(b), "the file is a stream as well"
import polars as pl

for frame in [pl.read_ipc(arrow), pl.scan_ipc(arrow).collect(), pl.read_csv(csv)]:
    check(frame.columns, frame.height, frame.row(0), f"polars {pl.__version__}")
