"""The format of the file door in words, for whoever answers in another language."""

FORMAT = """\
CASES AND ANSWERS AS FILES

  attention-doctor cases --out cases.npz     writes the cases
  your program                               answers them in answers.npz
  attention-doctor judge cases.npz answers.npz

Either file may be a folder instead: --out cases writes cases/NAME__q.npy for the
array "NAME/q", and the manifest as cases/manifest.json. Answers may lie in a
folder in the same way: answers/NAME__dq.npy. Every .npy is in C order.

AXES
  B batch   H heads of queries   H_kv heads of keys and values, divides H
  N queries   M keys   D features of a key   D_v of a value   R rows of a table
  Axes below are those of --layout bhnd and --table hr. With bnhd, (B, N, H, D)
  stands for (B, H, N, D); with rh, (R, H) for (H, R).
  Query head h uses head h // (H / H_kv) of the keys and values.

ARRAYS OF A CASE (those that it has)
  q (B,H,N,D)  k (B,H_kv,M,D)  v (B,H_kv,M,D_v)
  do (B,H,N,D_v)       the cotangent of o
  dlse (B,H,N)         the cotangent of lse
  bias                 broadcasts to (B,H,N,M)
  table (H,R) or (1,R) with
  row (N,M)            integers: bias[h,i,j] = table[h,row[i,j]]
  table (H,)           slopes of ALiBi; row is then |offset|, bias = -slope * row
  mask                 booleans, broadcasts to (B,H,N,M): true where i attends to j
  keep                 booleans, likewise: true where dropout keeps a weight
  sink (H,)            one more logit for each row, without a value
  Types are those of the case. bfloat16 is stored in float32, whose values it holds
  exactly: convert it back before use.

MANIFEST (JSON): "spec", "seed" and "cases", a list. Of each case it tells
  name, why, sizes, dtype (of q, k, v, do), bias_dtype (of bias and table)
  scale, bias_inside_scale, causal, query_start, softcap, softcap_on, dropout
  lengths              of packed sequences: tokens attend within their own alone
  wants                the gradients that are asked for
  strides, repeats     of use only within a process

WHAT IS COMPUTED
  s = scale q.k + bias            or scale (q.k + bias) with bias_inside_scale
  s = cap tanh(s / cap)           with softcap on "scores"; on "product", of q.k alone
  hidden are pairs that mask, causal or lengths forbid, and those of bias -inf
  causal: key j is hidden from query i if j > i + query_start; null means M - N
  p = softmax over keys (and the sink);  o = (p keep / (1 - dropout)) v
  lse = log of the sum of exp(s) over keys and sink, natural; -inf for an empty row
  o is 0 in a row without a key, and so are its gradients.
  Gradients are those of sum(o do) + sum(lse dlse).

ANSWERS
  NAME/o               (B,H,N,D_v), always
  NAME/lse             (B,H,N), if the specification claims it
  NAME/dq NAME/dk NAME/dv     in the shapes of q, k, v
  NAME/dbias           in the shape of the bias, or any to which it broadcasts
  NAME/dtable          in the shape of the table
  NAME/dscale          one number
  NAME/dsink           (H,)
  NAME/unsupported     a text instead of arrays: why the case was not tried
  NAME/error           a text instead of arrays: what went wrong
  In a folder a text is NAME__unsupported.txt. Any float type is read, 16 bits of a
  bfloat16 included. A copy of the manifest beside the answers, as "manifest" or
  manifest.json, makes the judge refuse answers to other cases of the same names.

IN PYTHON
  import json, numpy as np
  cases, answers = np.load("cases.npz"), {}
  for case in json.loads(str(cases["manifest"]))["cases"]:
      name = case["name"]
      q, k, v, do = (cases[f"{name}/{x}"] for x in ("q", "k", "v", "do"))
      ...
      answers[f"{name}/o"], answers[f"{name}/dq"] = o, dq
  np.savez("answers.npz", **answers)
"""
