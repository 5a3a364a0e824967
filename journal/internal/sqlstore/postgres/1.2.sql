-- What attempts of the same thing have in common, in records of failures and of what follows them.
ALTER TABLE records ADD COLUMN key bigint;
