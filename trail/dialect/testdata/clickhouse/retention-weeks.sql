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
            began,
            intDiv(toInt32(toMonday(toTimeZone(time, 'Asia/Seoul'))) + 3, 7) - intDiv(toInt32(toMonday(toTimeZone(began, 'Asia/Seoul'))) + 3, 7) AS period
        FROM events JOIN starts USING (user)
        WHERE event = 'purchase'
          AND time >= began
    ),
    sizes AS (
        SELECT toMonday(toTimeZone(began, 'Asia/Seoul')) AS cohort, count(*) AS size
        FROM starts
        GROUP BY cohort
    ),
    came AS (
        SELECT
            user,
            toMonday(toTimeZone(began, 'Asia/Seoul')) AS cohort,
            groupBitOr(bitShiftLeft(toUInt64(1), period)) AS bits
        FROM returns
        WHERE period < 6
        GROUP BY user, cohort
    ),
    periods AS (
        SELECT number AS k
        FROM numbers(6)
    )
SELECT
    cohort,
    any_value(size) AS users,
    k AS period,
    countIf(bitTest(bits, k)) AS returned
FROM sizes CROSS JOIN periods LEFT JOIN came USING (cohort)
GROUP BY cohort, k
ORDER BY cohort, k
SETTINGS enable_extended_results_for_datetime_functions = 1, join_use_nulls = 1
