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
            date_diff('day', DATE '1969-12-29', date_trunc('week', timezone('Asia/Seoul', timezone('UTC', time)))::DATE) // 7 - date_diff('day', DATE '1969-12-29', date_trunc('week', timezone('Asia/Seoul', timezone('UTC', began)))::DATE) // 7 AS period
        FROM events JOIN starts USING (user)
        WHERE event = 'purchase'
          AND time >= began
    ),
    sizes AS (
        SELECT
            date_trunc('week', timezone('Asia/Seoul', timezone('UTC', began)))::DATE AS cohort,
            count(*) AS size
        FROM starts
        GROUP BY cohort
    ),
    came AS (
        SELECT
            user,
            date_trunc('week', timezone('Asia/Seoul', timezone('UTC', began)))::DATE AS cohort,
            bit_or(1::BIGINT << period::INTEGER) AS bits
        FROM returns
        WHERE period < 6
        GROUP BY user, cohort
    ),
    periods AS (
        SELECT range AS k
        FROM range(6)
    )
SELECT
    cohort,
    any_value(size) AS users,
    k AS period,
    count(*) FILTER ((bits >> k::INTEGER) & 1 = 1) AS returned
FROM sizes CROSS JOIN periods LEFT JOIN came USING (cohort)
GROUP BY cohort, k
ORDER BY cohort, k
