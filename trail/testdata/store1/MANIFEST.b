{
 "version": 1,
 "generation": 4,
 "bucket_ms": 2419200000,
 "commit": 2,
 "flushed": 1,
 "next_file": 7,
 "schema": [
  {
   "name": "country",
   "type": "string"
  },
  {
   "name": "n",
   "type": "integer"
  }
 ],
 "segments": [
  {
   "file": "000000000000-1.seg",
   "bucket": 266,
   "commit": 1,
   "applied": 1,
   "rows": 1,
   "users": 1,
   "min_time": 644198400000,
   "max_time": 644198400000,
   "bytes": 681
  },
  {
   "file": "000000000001-1.seg",
   "bucket": 709,
   "commit": 1,
   "applied": 1,
   "rows": 9,
   "users": 9,
   "min_time": 1717200000000,
   "max_time": 1717891200000,
   "bytes": 1194,
   "ids": true
  },
  {
   "file": "000000000002-1.seg",
   "bucket": 710,
   "commit": 1,
   "applied": 1,
   "rows": 28,
   "users": 10,
   "min_time": 1717977600000,
   "max_time": 1720310400000,
   "bytes": 1387,
   "ids": true
  },
  {
   "file": "000000000003-1.seg",
   "bucket": 711,
   "commit": 1,
   "applied": 1,
   "rows": 3,
   "users": 3,
   "min_time": 1720396800000,
   "max_time": 1720569600000,
   "bytes": 1066,
   "ids": true
  },
  {
   "file": "000000000004-1.seg",
   "bucket": 2353,
   "commit": 1,
   "applied": 1,
   "rows": 1,
   "users": 1,
   "min_time": 5693328000000,
   "max_time": 5693328000000,
   "bytes": 684
  }
 ],
 "deleted": [
  {
   "hash": "5e753c9864a17c94",
   "commit": 2
  }
 ],
 "cohorts": [
  {
   "name": "buyers",
   "file": "000000000006.cohort",
   "users": 4
  }
 ]
}
crc32c 72075cb8
