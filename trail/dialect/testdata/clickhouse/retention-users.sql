WITH
    starts AS (
        SELECT user, min(time) AS began
        FROM events
        WHERE event = 'signup'
        GROUP BY user
    ),
    returns AS (
        SELECT
            user,
            intDiv(toUnixTimestamp64Milli(time) - toUnixTimestamp64Milli(began), 604800000) AS period
        FROM events JOIN starts USING (user)
        WHERE event = 'open'
          AND time >= began
          AND toUnixTimestamp64Milli(time) - toUnixTimestamp64Milli(began) < 4838400000
    )
SELECT user
FROM starts
WHERE toMonday(began) = toDate32('2026-01-05')
  AND user IN (SELECT user FROM returns WHERE period >= 1 AND period < 2)
SETTINGS enable_extended_results_for_datetime_functions = 1, join_use_nulls = 1
